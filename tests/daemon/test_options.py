"""What a request's fields mean to the engine."""

from typing import Any

import msgspec
import pytest

from memspec_actors.daemon.http.refusals import Refusal
from memspec_actors.daemon.options import max_new_tokens, prompt_of, sampling_of, scheduling_of
from memspec_actors.protocols.http_requests import ChatCompletionRequest, CompletionRequest
from memspec_actors.protocols.requests import SamplingParams


def completion(**fields: Any) -> CompletionRequest:
    return msgspec.convert({"model": "m", "prompt": "p", **fields}, CompletionRequest)


def chat(**fields: Any) -> ChatCompletionRequest:
    given = {"model": "m", "messages": [{"role": "user", "content": "c"}], **fields}
    return msgspec.convert(given, ChatCompletionRequest)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 0.3),
        ("top_p", 0.5),
        ("top_k", 7),
        ("min_p", 0.1),
        ("seed", 11),
        ("stop_token_ids", (3, 4)),
        ("ignore_eos", True),
        ("min_tokens", 2),
        ("presence_penalty", -1.5),
        ("frequency_penalty", 1.25),
        ("repetition_penalty", 1.1),
        ("logit_bias", {5: -100.0}),
    ],
)
def test_a_sampling_field_reaches_the_parameter_of_its_name_and_no_other(field: str, value: Any) -> None:
    default = SamplingParams(temperature=1.0)  # OpenAI's
    assert sampling_of(completion()) == sampling_of(chat()) == default
    expected = msgspec.structs.replace(default, **{field: value})
    assert sampling_of(completion(**{field: value})) == sampling_of(chat(**{field: value})) == expected != default
    assert sampling_of(completion(**{field: None})) == default, "null is the default"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"stop": "a"}, ("a",)), ({"stop": ["a", "b"]}, ("a", "b")), ({"stop": []}, ()), ({}, ())],
)
def test_stop_is_one_string_or_several(fields: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert sampling_of(completion(**fields)).stop == expected


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (completion(logprobs=0), 0),
        (completion(logprobs=5), 5),
        (completion(), None),
        (chat(logprobs=True), 0),
        (chat(logprobs=True, top_logprobs=4), 4),
        (chat(logprobs=False), None),
    ],
)
def test_logprobs_mean_in_each_api_what_they_mean_there(request_: Any, expected: int | None) -> None:
    """A number of completions' logprobs is a flag and a number in chat."""
    assert sampling_of(request_).logprobs == expected


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, {}),
        ({"draft_model": None}, {"policy": "target-only"}),
        ({"draft_model": "law", "method": "gen-only"}, {"policy": "static:law", "method": "gen-only"}),
        ({"policy": "general-static", "num_draft_tokens": 3}, {"policy": "general-static", "stop": "fixed:3"}),
    ],
)
def test_null_turns_drafting_off_and_a_name_pins_it(fields: dict[str, Any], options: dict[str, Any]) -> None:
    """An absent draft_model is not null: it leaves the choice to the configured policy."""
    asked = scheduling_of(completion(**fields)).options
    assert {key: value for key, value in asked.items() if value is not None} == options


@pytest.mark.parametrize("prompt", ["text", ["text"]])
def test_a_batch_of_one_is_its_prompt(prompt: Any) -> None:
    assert prompt_of(completion(prompt=prompt)).content == "text"
    assert prompt_of(completion(prompt=[[1, 2]])).content == [1, 2]


@pytest.mark.parametrize("prompt", [["a", "b"], [[1], [2]], ["a", 1], [1, "a"]])
def test_a_batch_of_several_is_refused(prompt: Any) -> None:
    """One of the prompts would be answered, or a mixture of them."""
    with pytest.raises(Refusal) as caught:
        prompt_of(completion(prompt=prompt))
    assert caught.value.body.param == "prompt"


def test_a_chat_without_a_limit_gets_the_whole_context() -> None:
    assert max_new_tokens(chat(), context=500) == 500
    assert max_new_tokens(chat(max_completion_tokens=3), context=500) == 3
    assert max_new_tokens(chat(max_tokens=4), context=500) == 4
    assert max_new_tokens(completion(), context=500) == 16


def test_a_developers_message_is_the_systems() -> None:
    """OpenAI renamed the role; chat templates know the old name."""
    prompt = prompt_of(chat(messages=[{"role": "developer", "content": "d"}, {"role": "user", "content": "u"}]))
    assert prompt.content == [{"role": "system", "content": "d"}, {"role": "user", "content": "u"}]
    assert not prompt.raw
