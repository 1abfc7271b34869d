"""Collect traces: the target's greedy text, and what every draft would have got accepted in it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.structs import replace

from memspec_actors.errors import CheckpointError, TraceError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.runner import Runner
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.models.text.vocabulary import check_compatible
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.output_files import check_output
from memspec_actors.predictor.domains import domain_starts
from memspec_actors.predictor.prompts import Prompt
from memspec_actors.predictor.reading import Tracer
from memspec_actors.predictor.traces import MAX_K, open_trace_writer
from memspec_actors.progress import Progress
from memspec_actors.protocols.traces import TRACE_FORMAT, TraceHeader, TraceRecord
from memspec_actors.speculation.commit import united_end_ids

__all__ = ["collect", "encode_prompt", "new_tracer", "open_tracer", "weights_hash"]


def collect(
    target_dir: str | Path,
    draft_dirs: Mapping[str, str | Path],
    prompts: Sequence[Prompt],
    out: str | Path,
    *,
    max_new_tokens: int = 320,
    k: int = 5,
    free_runs: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Trace ``prompts`` into the file ``out`` and return figures of the run.

    The target writes greedily in float32, by lossless speculative decoding of one sequence, as the engine does; one
    pass of each draft over the text gives its accepted run at every position (cut at ``k``). Prompts go through the
    target's chat template if it has one. ``free_runs`` adds what replays under stop rules need that go by how sure a
    draft is, and takes about four times as long. ``near_ties`` counts positions whose two best logits lie within 1e-3:
    there another order of floating-point sums could write another text. Raises CheckpointError, IncompatibleDraft,
    TraceError, and UsageError for a file that cannot be written.
    """
    if not draft_dirs or not prompts:
        raise TraceError("a trace needs at least one draft and at least one prompt")
    if not 1 <= k <= MAX_K:
        raise TraceError(f"k is {k}; drafts can be of 1 to {MAX_K} tokens")
    check_output(Path(out))
    tracer, tokenizer = open_tracer(target_dir, draft_dirs, k)
    encoded = [encode_prompt(tokenizer, prompt.prompt) for prompt in prompts]
    _check_lengths(encoded, tracer.target.max_positions - 1)
    header = _header(target_dir, draft_dirs, tracer, max_new_tokens, encoded[0])
    tracer = replace(tracer, free_runs=free_runs)
    totals = _Totals(dict.fromkeys(draft_dirs, 0))
    with open_trace_writer(out, header) as writer:
        for index, (prompt, ids) in enumerate(zip(prompts, encoded, strict=True), 1):
            record, _ = tracer.trace(ids, max_new_tokens, prompt.kind)
            domains = domain_starts(ids, record.output_ids, tokenizer, prompt.kind)
            writer.write(replace(record, domains=domains))
            totals.add(record)
            if progress:
                progress("collect", index, len(prompts))
    return {
        "prompts": len(prompts),
        "tokens": totals.tokens,
        "near_ties": totals.near_ties,
        "k": k,
        "iteration_us": header.iteration_us,
        "agreement": {name: count / max(totals.tokens, 1) for name, count in totals.agreed.items()},
        "trace": str(out),
    }


@dataclass(slots=True)
class _Totals:
    """Add up records: ``agreed`` counts the tokens that each draft would have said, too."""

    agreed: dict[str, int]
    tokens: int = 0
    near_ties: int = 0

    def add(self, record: TraceRecord) -> None:
        self.tokens += len(record.output_ids)
        self.near_ties += record.near_ties
        for name, runs in record.accepted.items():
            self.agreed[name] += sum(run > 0 for run in runs)


def _header(
    target_dir: str | Path,
    draft_dirs: Mapping[str, str | Path],
    tracer: Tracer,
    max_new_tokens: int,
    prompt_ids: Sequence[int],
) -> TraceHeader:
    """Say what a trace is of; how long an iteration takes is measured on one prompt."""
    _, iteration_us = tracer.trace(prompt_ids, max_new_tokens)
    return TraceHeader(
        format=TRACE_FORMAT,
        target=weights_hash(target_dir),
        drafts={name: weights_hash(path) for name, path in draft_dirs.items()},
        draft_nbytes={name: _weights_nbytes(path) for name, path in draft_dirs.items()},
        k=tracer.k,
        max_new_tokens=max_new_tokens,
        vocab_size=tracer.num_ids,
        eos_ids=tuple(sorted(tracer.eos_ids)),
        iteration_us=median(iteration_us) if iteration_us else None,
        versions={name: version(name) for name in ("memspec-actors", "torch")},
    )


def open_tracer(target_dir: str | Path, draft_dirs: Mapping[str, str | Path], k: int) -> tuple[Tracer, Tokenizer]:
    """Load a target and its drafts in float32 to trace with them, and the target's tokenizer."""
    checkpoint, tokenizer = Checkpoint.open(target_dir), Tokenizer.open(target_dir)
    drafts = {}
    for name, path in draft_dirs.items():
        draft = Checkpoint.open(path)
        common = check_compatible(checkpoint, draft).num_common
        drafts[name] = (open_runner(draft, dtype="float32"), common)
    return new_tracer(open_runner(checkpoint, dtype="float32"), checkpoint, tokenizer, drafts, k), tokenizer


def new_tracer(
    target: Runner, checkpoint: Checkpoint, tokenizer: Tokenizer, drafts: Mapping[str, tuple[Runner, int]], k: int
) -> Tracer:
    """Return a tracer of drafts (runner, ids shared with the target), for a target that is open already."""
    return Tracer(
        target=target,
        drafts=drafts,
        num_ids=min(tokenizer.num_ids, checkpoint.vocab_size),
        eos_ids=united_end_ids(checkpoint.eos_ids, tokenizer.eos_id, ignore_eos=False),
        k=k,
        gap_ids=tokenizer.gap_ids,
    )


def weights_hash(directory: str | Path) -> str:
    """Give the SHA-256 over a model directory's safetensors files. Raises CheckpointError if there are none."""
    files = sorted(Path(directory).glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{directory}: no *.safetensors file; give a Hugging Face model directory")
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _weights_nbytes(directory: str | Path) -> int:
    return sum(entry.nbytes for entry in Checkpoint.open(directory).weights().values())


def _check_lengths(encoded: Sequence[Sequence[int]], limit: int) -> None:
    for number, ids in enumerate(encoded, 1):
        if not 0 < len(ids) <= limit:
            raise TraceError(f"prompt {number} has {len(ids)} tokens; the target takes 1 to {limit}: shorten it")


def encode_prompt(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """Return the ids of a prompt, put through the chat template if there is one."""
    if tokenizer.chat_template is None:
        return tokenizer.encode(prompt, add_special_tokens=True)
    text = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True)
    return tokenizer.encode(text, add_special_tokens=False)
