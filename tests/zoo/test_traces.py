"""Traces: decoding played from match vectors equals speculative decoding done for real."""

import random

import pytest
import torch

from memspec_actors.zoo.generation import greedy
from memspec_actors.zoo.network import Network, Shape
from memspec_actors.zoo.tokenizer import train_tokenizer
from memspec_actors.zoo.traces import (
    DRAFT_LENGTH,
    Trace,
    always,
    best_dynamic,
    best_static,
    collect_traces,
    decode,
    evaluation_requests,
)
from memspec_actors.zoo.world import DOMAINS, sample_request


def small_network(seed: int, vocab: int) -> Network:
    torch.manual_seed(seed)
    network = Network(Shape(hidden=16, layers=2, heads=2, inner=16, vocab=vocab))
    for block in network.layers():
        torch.nn.init.normal_(block.out.weight, std=0.3)
        torch.nn.init.normal_(block.down.weight, std=0.3)
    return network


def played(target: Network, draft: Network, prompt: list[int], output: list[int]) -> tuple[int, int]:
    """Speculate for real, one forward pass per proposed token, no cache."""
    text, end = prompt + output[:1], len(prompt) + len(output)
    iterations = accepted = 0
    while len(text) < end:
        proposal = list(text)
        for _ in range(DRAFT_LENGTH):
            proposal.append(int(draft(torch.tensor([proposal]))[0, -1].argmax()))
        hits = 0
        for token in proposal[len(text) :]:
            if len(text) >= end or int(target(torch.tensor([text]))[0, -1].argmax()) != token:
                break
            text.append(token)
            hits += 1
        if len(text) < end:
            text.append(int(target(torch.tensor([text]))[0, -1].argmax()))
        iterations += 1
        accepted += hits
    return iterations, accepted


@torch.inference_mode()
def test_decode_equals_real_speculation() -> None:
    """Every acceptance figure of the model card rests on this."""
    tokenizer = train_tokenizer(num_documents=50, vocab_size=320)
    target, other = small_network(0, 320), small_network(1, 320)
    draft = small_network(0, 320)  # like the target, but for noise: right now and then
    for weight in draft.parameters():
        weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)) * 0.02)
    request = sample_request(random.Random(1), ("law",))
    for name, network in (("near", draft), ("far", other)):
        (trace,) = collect_traces(target, {name: network}, tokenizer, [("law", request)])
        cut = Trace(kind="law", request=request, output=trace.output[:40], matches={name: trace.matches[name][:40]})
        run = decode(cut, always(name))
        prompt = tokenizer.encode(request.prompt_text).ids
        assert (run.iterations, run.accepted) == played(target, network, prompt, list(cut.output))
        assert run.tokens == 39


@torch.inference_mode()
def test_batched_greedy_equals_one_at_a_time() -> None:
    """Left padding would otherwise change the target's text, and with it every figure."""
    network = small_network(3, 320)
    prompts = [[1, 5, 9, 17], [1, 40], [1, 7, 8, 9, 10, 11, 12, 13]]
    for prompt, output in zip(prompts, greedy(network, prompts, max_new_tokens=12), strict=True):
        text = list(prompt)
        for _ in output:
            text.append(int(network(torch.tensor([text]))[0, -1].argmax()))
        assert output == text[len(prompt) :]


def trace_of(**matches: str) -> Trace:
    vectors = {name: tuple(hit == "1" for hit in hits) for name, hits in matches.items()}
    length = len(next(iter(vectors.values())))
    request = sample_request(random.Random(0), ("law",))
    return Trace(kind="law", request=request, output=(7,) * length, matches=vectors)


def test_dynamic_choice_takes_the_better_draft_of_each_interval() -> None:
    """Oracle-Dynamic would not be an upper bound if it kept one draft."""
    trace = trace_of(a="1" * 25 + "0" * 24, b="0" * 25 + "1" * 24)
    dynamic = decode(trace, best_dynamic(["a", "b"])).iterations
    assert dynamic < decode(trace, best_static(trace, ["a", "b"])).iterations


def test_static_choice_takes_the_draft_with_fewest_iterations() -> None:
    """Oracle-Static would be too weak a baseline otherwise."""
    trace = trace_of(a="10" * 20, b="1" * 40)
    assert decode(trace, best_static(trace, ["a", "b"])).iterations == decode(trace, always("b")).iterations == 7


@pytest.mark.parametrize("domain", DOMAINS)
def test_evaluation_holds_every_domain_and_mixtures(domain: str) -> None:
    """The acceptance matrix would have an empty row."""
    requests = evaluation_requests(4, 3)
    assert [len(r.items) for kind, r in requests if kind == domain] == [1, 2, 3, 4]
    assert all(len({i.domain for i in r.items}) > 1 for kind, r in requests if kind == "mixed")
