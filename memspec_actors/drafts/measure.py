"""Measure drafts beside their target: loads, the cost of a token, what the target accepts of them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from memspec_actors.drafts.report import Measured
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.devices.device import Device, open_transfer
from memspec_actors.models.devices.transfer import Transfer
from memspec_actors.models.drafting.arena import WeightArena
from memspec_actors.models.runner import Runner
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.models.weights.loading import load_into
from memspec_actors.models.weights.page_cache import forget_cached
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.predictor.collect import encode_prompt, new_tracer
from memspec_actors.predictor.prompts import Prompt
from memspec_actors.predictor.reading import ReadingDraft, Tracer
from memspec_actors.predictor.traces import accepted_runs
from memspec_actors.progress import Progress
from memspec_actors.simulation.measure import pass_ms

__all__ = ["Candidate", "Text", "accepted_by_kind", "measure_drafts", "write_texts"]


class Candidate(NamedTuple):
    """A draft that could work: how to load it, and how many ids it shares with the target."""

    plan: LoadPlan
    num_common: int


class Text(NamedTuple):
    """A prompt's ids followed by the target's own greedy answer, which begins at ``start``."""

    tokens: Sequence[int]
    start: int
    kind: str


def measure_drafts(
    target: Runner,
    checkpoint: Checkpoint,
    tokenizer: Tokenizer,
    drafts: Mapping[str, Candidate],
    prompts: Sequence[Prompt],
    *,
    k: int,
    max_new_tokens: int,
    device: Device,
    progress: Progress,
) -> dict[str, Measured]:
    """Measure every draft, one in the device's memory at a time, drafting ``k`` tokens per iteration.

    The target answers the prompts greedily once; what it would accept of a draft follows exactly from one pass of the
    draft over each answer.
    """
    nbytes = max(candidate.plan.nbytes for candidate in drafts.values())
    memory, transfer = WeightArena(nbytes, device).view(0, nbytes), open_transfer(device)
    target_ms, verify_ms = pass_ms(target, 1), pass_ms(target, k + 1)
    texts: list[Text] = []
    measured: dict[str, Measured] = {}
    for index, (name, candidate) in enumerate(drafts.items()):
        load_s = _load_cold(candidate.plan, memory, transfer)
        runner = candidate.plan.bind(memory)
        if not texts:
            tracer = new_tracer(target, checkpoint, tokenizer, {name: (runner, candidate.num_common)}, k)
            texts = write_texts(tracer, tokenizer, prompts, max_new_tokens, progress)
        draft_ms = pass_ms(runner, 1)
        accepted = accepted_by_kind(runner, candidate.num_common, texts, k)
        tokens = accepted["all"] + 1
        measured[name] = Measured(
            load_s=load_s,
            cost_ratio=draft_ms / target_ms,
            accepted=accepted,
            tokens_per_iteration=tokens,
            speedup=tokens * target_ms / (k * draft_ms + verify_ms),
        )
        progress("drafts", index + 1, len(drafts))
    return measured


def write_texts(
    tracer: Tracer, tokenizer: Tokenizer, prompts: Sequence[Prompt], max_new_tokens: int, progress: Progress
) -> list[Text]:
    """Let the target answer every prompt; one that leaves no room for an answer is cut at its beginning."""
    texts = []
    room = max(1, tracer.target.max_positions - max_new_tokens)
    for index, prompt in enumerate(prompts):
        ids = encode_prompt(tokenizer, prompt.prompt)[-room:]
        record, _ = tracer.trace(ids, max_new_tokens, prompt.kind)
        texts.append(Text((*ids, *record.output_ids), len(ids), prompt.kind))
        progress("target's answers", index + 1, len(prompts))
    return texts


def accepted_by_kind(runner: Runner, num_common: int, texts: Sequence[Text], k: int) -> dict[str, float]:
    """Return the accepted tokens per iteration by kind of text, and over "all" texts."""
    counts: dict[str, list[int]] = {"all": [0, 0]}
    for text in texts:
        reader = ReadingDraft(runner, num_common, len(text.tokens))
        reader.read(text.tokens)
        runs = accepted_runs(reader.agreements(text.tokens, text.start), k)
        accepted, iterations = _play(runs)
        for kind in ("all", text.kind) if text.kind else ("all",):
            count = counts.setdefault(kind, [0, 0])
            count[0] += accepted
            count[1] += iterations
    return {kind: accepted / max(1, iterations) for kind, (accepted, iterations) in counts.items()}


def _play(runs: Sequence[int]) -> tuple[int, int]:
    """Decode over a traced text; return how many tokens were accepted and in how many iterations."""
    position, accepted, iterations = 1, 0, 0  # the prefill gives the first token
    while position < len(runs):
        accepted += runs[position]
        position += runs[position] + 1
        iterations += 1
    return accepted, iterations


def _load_cold(plan: LoadPlan, memory: Tensor, transfer: Transfer | None) -> float:
    for file in plan.checkpoint.files:
        forget_cached(file)
    return load_into(plan, memory, transfer=transfer).wall_s
