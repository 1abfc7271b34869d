"""OpenAI's own client against the running daemon: what programs written for that API see."""

from typing import Any

import openai
import pytest

MODEL = "memspec-zoo"
REQUEST = "gather 8 breamols for Waman; compose new_beto for Pulal, limit=50"
MESSAGES: Any = [{"role": "user", "content": REQUEST}]


def chat(client: openai.OpenAI, **options: Any) -> Any:
    given = {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": 48, **options}
    return client.chat.completions.create(**given)


def test_the_model_is_listed_under_the_name_that_requests_use(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_a_streamed_chat_joins_to_the_whole_one(client: openai.OpenAI) -> None:
    """The same request would give another text, another finish reason or another usage when it is streamed."""
    whole = chat(client)
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == whole.choices[0].message.content != ""
    assert sum(map(bool, texts)) > 1, "the text came in one piece"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason == "length"
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_streamed_completion_joins_to_the_whole_one(client: openai.OpenAI) -> None:
    options: Any = {
        "model": MODEL,
        "prompt": "Request:\nFirst gather 8 breamols for Waman?\nAnswer:\n",
        "temperature": 0,
    }
    whole = client.completions.create(**options)
    chunks = list(client.completions.create(**options, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text != ""
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 16, "OpenAI's default length"


def test_a_prompt_of_token_ids_is_taken_as_it_is(client: openai.OpenAI) -> None:
    """A client that tokenizes itself would have its prompt changed, or lose count."""
    reply = client.completions.create(model=MODEL, prompt=[5, 6, 7], max_tokens=2)
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == 3


def test_a_reply_can_be_sent_back_as_it_came(client: openai.OpenAI) -> None:
    """Programs keep the reply's message, with its null fields, as the next turn's history."""
    message = chat(client, max_tokens=4).choices[0].message
    turns: Any = [*MESSAGES, message.model_dump(), {"role": "user", "content": [{"type": "text", "text": REQUEST}]}]
    assert chat(client, messages=turns, max_tokens=4).choices[0].message.content


def test_stop_ends_the_text_before_it(client: openai.OpenAI) -> None:
    whole = chat(client).choices[0].message.content
    stop = whole[20:26]
    cut = chat(client, stop=[stop, "never"])
    assert cut.choices[0].message.content == whole[: whole.index(stop)]
    assert cut.choices[0].finish_reason == "stop"


def test_a_seed_gives_the_same_text_again_under_any_draft(client: openai.OpenAI) -> None:
    """Sampled text would depend on the drafts: it is not the target's own any more."""
    options: Any = {"temperature": 3.0, "top_p": 0.95, "seed": 7}
    bodies: list[Any] = [
        {"draft_model": None}, {"draft_model": "code"}, {"policy": "memspec"}, {"num_draft_tokens": 2}, {"top_k": 0},
    ]  # fmt: skip
    replies = [chat(client, **options, extra_body=body) for body in bodies]
    assert len({reply.choices[0].message.content for reply in replies}) == 1
    assert chat(client, **{**options, "seed": 8}).choices[0].message.content != replies[0].choices[0].message.content


def test_the_reply_tells_what_speculation_did(client: openai.OpenAI) -> None:
    """Counters obey: accepted <= drafted, positions sum to accepted; no draft means no figures."""
    reply = chat(client, extra_body={"draft_model": "math", "num_draft_tokens": 3})
    spec = reply.metrics["speculative_decoding"]
    assert spec["num_spec_tokens"] == 3
    assert 0 < sum(spec["acceptance_histogram"]) == spec["num_accepted_draft_tokens"] <= spec["num_draft_tokens"]
    assert reply.timings["draft_n"] == spec["num_draft_tokens"]
    assert reply.timings["predicted_n"] == reply.usage.completion_tokens == 48
    assert reply.timings["prompt_n"] == reply.usage.prompt_tokens
    assert reply.lossless is True
    plain = chat(client, extra_body={"draft_model": None})
    assert plain.metrics["speculative_decoding"]["num_spec_steps"] == 0
    last = list(chat(client, stream=True, extra_body={"draft_model": "math"}))[-1]
    assert last.metrics["speculative_decoding"]["num_spec_steps"] > 0


def test_a_lossy_method_is_told_from_a_lossless_one(client: openai.OpenAI) -> None:
    """A caller would take another text for the target's own."""
    told = {method: chat(client, extra_body={"method": method}).lossless for method in ("gen-only", "adasd")}
    assert told == {"gen-only": True, "adasd": False}


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"n": 2}, "n"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
        ({"stop": [""]}, "stop[0]"),
        ({"seed": -1}, "seed"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": ""}] * 2049}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"extra_body": {"draft_model": "codex"}}, "draft_model"),
        ({"extra_body": {"policy": "memspek"}}, "policy"),
        ({"extra_body": {"method": "adasdd"}}, "method"),
        ({"extra_body": {"policy": "m" * 1000}}, "policy"),
        ({"model": "m" * 1000}, "model"),
        ({"extra_body": {"method": "adasd", "num_draft_tokens": 3}}, "num_draft_tokens"),
        ({"extra_body": {"policy": "memspec", "draft_model": "code"}}, "draft_model"),
        ({"extra_body": {"num_draft_tokens": 65}}, "num_draft_tokens"),
        ({"extra_body": {"top_q": 1}}, "top_q"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"5": 1000}}, "logit_bias"),
        ({"logit_bias": {"2000000": 1}}, "logit_bias"),
        ({"messages": [{"role": "user", "content": "a " * 20000}]}, "messages"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(client: openai.OpenAI, options: dict[str, Any], param: str) -> None:
    """A field that is silently ignored gives a program a text that it did not ask for."""
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **options)
    assert caught.value.param == param
    assert "\n" not in caught.value.message


def test_another_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        chat(client, model="gpt-4o")
    assert caught.value.code == "model_not_found"


def test_logprobs_are_the_same_with_and_without_drafts_and_match_the_text(client: openai.OpenAI) -> None:
    """A program that scores tokens would read the draft's figures, or those of another position."""
    reply, plain = (
        chat(client, logprobs=True, top_logprobs=2, extra_body={"draft_model": draft}) for draft in ("math", None)
    )
    content = reply.choices[0].logprobs.content
    assert "".join(each.token for each in content) == reply.choices[0].message.content
    assert len(content) == reply.usage.completion_tokens
    assert all(each.top_logprobs[0].logprob == pytest.approx(each.logprob) for each in content), "greedy takes the best"
    assert [each.token for each in content] == [each.token for each in plain.choices[0].logprobs.content]
    expected = [each.logprob for each in plain.choices[0].logprobs.content]
    assert [each.logprob for each in content] == pytest.approx(expected, abs=1e-3)
    streamed = chat(client, logprobs=True, stream=True)
    told = [each for c in streamed if c.choices[0].logprobs for each in c.choices[0].logprobs.content]
    assert [each.token for each in told] == [each.token for each in content]


def test_completion_logprobs_name_where_each_token_starts(client: openai.OpenAI) -> None:
    prompt = "Request:\nFirst gather 8 breamols for Waman?\nAnswer:\n"
    options: Any = {"model": MODEL, "prompt": prompt, "temperature": 0, "logprobs": 1, "max_tokens": 8}
    whole = client.completions.create(**options).choices[0]
    assert whole.logprobs is not None
    tokens, offsets = whole.logprobs.tokens or [], whole.logprobs.text_offset or []
    assert [whole.text[offset:].startswith(token) for token, offset in zip(tokens, offsets, strict=True)] == [True] * 8
    chunks = [c.choices[0].logprobs for c in client.completions.create(**options, stream=True)]
    assert [offset for each in chunks if each for offset in each.text_offset or []] == offsets


def test_bias_and_minimum_length_reach_the_engine(client: openai.OpenAI) -> None:
    """The daemon would take the fields and ignore them."""
    biased = client.completions.create(
        model=MODEL, prompt=[5, 6, 7], temperature=0, max_tokens=4, logprobs=0, logit_bias={"9": 100}
    )
    assert biased.choices[0].logprobs is not None
    assert len(set(biased.choices[0].logprobs.tokens or [])) == 1
    assert chat(client, max_tokens=120, extra_body={"min_tokens": 120}).usage.completion_tokens == 120
