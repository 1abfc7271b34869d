"""What every draft would have had accepted, exactly, without running speculative decoding.

Under greedy decoding a draft's proposal at a position is accepted exactly if its most likely token after the true
prefix is the target's. So one pass of each draft over the target's text gives a match vector from which the accepted
counts of every schedule of drafts follow.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec
import torch
from tokenizers import Tokenizer

from memspec_actors.zoo.generation import greedy
from memspec_actors.zoo.network import Network
from memspec_actors.zoo.tokenizer import BOS
from memspec_actors.zoo.world import DOMAINS, Request, sample_request

MIXED = "mixed"
DRAFT_LENGTH = 5
INTERVAL = 4
MAX_NEW_TOKENS = 420
CHUNK = 32


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """One request, the target's greedy `output`, and for each draft whether it would have said each token of it."""

    kind: str
    request: Request
    output: tuple[int, ...]
    matches: Mapping[str, tuple[bool, ...]]


def evaluation_requests(num_single: int, num_mixed: int, seed: str = "eval:requests") -> list[tuple[str, Request]]:
    """Write held-out requests: `num_single` a domain, of one to four items, and `num_mixed` of two to four domains."""
    rng = random.Random(seed)
    requests = [
        (domain, sample_request(rng, (domain,) * (1 + i % 4), "eval")) for domain in DOMAINS for i in range(num_single)
    ]
    for i in range(num_mixed):
        phases = [rng.choice(DOMAINS)]
        while len(phases) < 2 + i % 3:
            phases.append(rng.choice([domain for domain in DOMAINS if domain != phases[-1]]))
        requests.append((MIXED, sample_request(rng, phases, "eval")))
    return requests


@torch.inference_mode()
def collect_traces(
    target: Network, drafts: Mapping[str, Network], tokenizer: Tokenizer, requests: Sequence[tuple[str, Request]]
) -> list[Trace]:
    """Let the target answer every request greedily and ask every draft about each of its tokens."""
    texts = [BOS + request.prompt_text for _, request in requests]
    prompts = [entry.ids for entry in tokenizer.encode_batch(texts, add_special_tokens=False)]
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    outputs: dict[int, list[int]] = {}
    for start in range(0, len(order), CHUNK):
        rows = order[start : start + CHUNK]
        answers = greedy(target, [prompts[i] for i in rows], max_new_tokens=MAX_NEW_TOKENS)
        outputs.update(zip(rows, answers, strict=True))
    return [
        Trace(
            kind=kind,
            request=request,
            output=tuple(outputs[i]),
            matches={name: _matches(draft, prompts[i], outputs[i]) for name, draft in drafts.items()},
        )
        for i, (kind, request) in enumerate(requests)
    ]


def _matches(draft: Network, prompt: list[int], output: list[int]) -> tuple[bool, ...]:
    guesses = draft(torch.tensor([prompt + output]))[0].argmax(-1)[len(prompt) - 1 : -1].tolist()
    return tuple(guess == token for guess, token in zip(guesses, output, strict=True))


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of decoding one trace; `tokens` counts what the iterations emitted (not the prefill's token)."""

    iterations: int
    accepted: int
    tokens: int


Chooser = Callable[[Trace, int], str]


def decode(trace: Trace, choose: Chooser) -> Run:
    """Play speculative decoding over `trace`; `choose(trace, position)` names the draft at every scheduling point."""
    position, iterations, accepted = 1, 0, 0  # the prefill gives the first token
    draft = ""
    while position < len(trace.output):
        if iterations % INTERVAL == 0:
            draft = choose(trace, position)
        hits = accepted_at(trace, draft, position)
        accepted += hits
        iterations += 1
        position += hits + 1
    return Run(iterations=iterations, accepted=accepted, tokens=len(trace.output) - 1)


def accepted_at(trace: Trace, draft: str, position: int) -> int:
    """Count how many of the next tokens `draft` would get right before its first miss, at most DRAFT_LENGTH."""
    hits = 0
    matches = trace.matches[draft][position : position + DRAFT_LENGTH]
    for match in matches:
        if not match:
            break
        hits += 1
    return hits


def always(draft: str) -> Chooser:
    """Choose the same draft everywhere."""
    return lambda trace, position: draft


def best_static(trace: Trace, drafts: Sequence[str]) -> Chooser:
    """Choose the one draft that needs the fewest iterations for this trace (Oracle-Static)."""
    return always(min(drafts, key=lambda draft: decode(trace, always(draft)).iterations))


def best_dynamic(drafts: Sequence[str]) -> Chooser:
    """Choose the draft that gets furthest within the coming interval (Oracle-Dynamic)."""

    def reach(trace: Trace, draft: str, position: int) -> int:
        for _ in range(INTERVAL):
            position += accepted_at(trace, draft, position) + 1
        return min(position, len(trace.output))

    return lambda trace, position: max(drafts, key=lambda draft: reach(trace, draft, position))
