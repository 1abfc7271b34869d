"""Write and read trace files, record by record."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import msgspec

from memspec_actors.errors import TraceError
from memspec_actors.output_files import whole_file
from memspec_actors.protocols.traces import TRACE_FORMAT, FreeRun, TraceHeader, TraceRecord
from memspec_actors.speculation.criterion import MAX_GAIN_TOKENS

__all__ = ["MAX_K", "TraceReader", "TraceWriter", "accepted_runs", "open_trace_writer"]

MAX_K = 1000  # replays reckon with every length up to a trace's


def accepted_runs(agrees: Sequence[bool], k: int) -> tuple[int, ...]:
    """Turn agreements per position into accepted runs: how many true values follow from each position on, at most
    ``k``.

    ``agrees[t]`` says whether the draft, having read the true text before position t, predicts the token at t. In
    greedy lossless decoding the committed text is the target's own, so this is what a draft of length ``k`` gets
    accepted there.
    """
    runs = [0] * (len(agrees) + 1)
    for position in reversed(range(len(agrees))):
        runs[position] = runs[position + 1] + 1 if agrees[position] else 0
    return tuple(min(run, k) for run in runs[:-1])


class TraceWriter:
    """Append records to an open trace file."""

    def __init__(self, file: BinaryIO, header: TraceHeader) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder()
        self._write(header)

    def write(self, record: TraceRecord) -> None:
        """Append one record as one line."""
        self._write(record)

    def _write(self, line: msgspec.Struct) -> None:
        self._file.write(self._encoder.encode(line) + b"\n")


@contextmanager
def open_trace_writer(path: str | Path, header: TraceHeader) -> Iterator[TraceWriter]:
    """Write a trace file that appears under ``path`` only once it is whole. Raises UsageError as `whole_file` does."""
    with whole_file(Path(path)) as file:
        yield TraceWriter(file, header)


class TraceReader:
    """Read a trace file: the header at once, the records one by one.

    Raises TraceError naming the file and the line for anything that is not a whole, consistent trace.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._decoder = msgspec.json.Decoder(TraceRecord)
        with self._open() as file:
            self.header = self._read_header(file.readline())

    def __iter__(self) -> Iterator[TraceRecord]:
        with self._open() as file:
            file.readline()
            for number, line in enumerate(file, 2):
                try:
                    record = self._decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise TraceError(f"{self.path}, line {number}: {error}; collect it again") from error
                self._check(record, number)
                yield record

    def _open(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise TraceError(f"{self.path}: {error.strerror}; collect a trace first") from error

    def _read_header(self, line: bytes) -> TraceHeader:
        try:
            header = msgspec.json.decode(line, type=TraceHeader)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TraceError(f"{self.path}, line 1: {error}; a trace file begins with its header") from error
        if header.format != TRACE_FORMAT:
            raise TraceError(f"{self.path}, line 1: format {header.format!r} is not {TRACE_FORMAT!r}; collect it again")
        if list(header.draft_nbytes) != list(header.drafts) or min(header.draft_nbytes.values(), default=1) < 1:
            raise TraceError(f"{self.path}, line 1: draft_nbytes {header.draft_nbytes} must give every draft a size")
        if not header.drafts or not 1 <= header.k <= MAX_K:
            raise TraceError(
                f"{self.path}, line 1: a trace needs at least one draft and a k of 1 to {MAX_K} (k is {header.k})"
            )
        return header

    def _check(self, record: TraceRecord, number: int) -> None:
        fault = next(self._faults(record), None)
        if fault is not None:
            raise TraceError(f"{self.path}, line {number}: {fault}; collect the trace again")

    def _faults(self, record: TraceRecord) -> Iterator[str]:
        """Say in what a record contradicts the header, or itself; what follows the first fault may make no sense."""
        drafts = list(self.header.drafts)
        if list(record.accepted) != drafts:
            yield f"drafts {list(record.accepted)} differ from the header's {drafts}"
        if list(record.entropies) != drafts:
            yield f"entropies are of {list(record.entropies)}, not of the same drafts"
        if record.free_runs is not None and list(record.free_runs) != drafts:
            yield f"free runs are of {list(record.free_runs)}, not of the same drafts"
        for what, ids in (("the prompt", record.prompt_ids), ("the text", record.output_ids)):
            if not ids:
                yield f"{what} has no tokens"
            elif not 0 <= min(ids) <= max(ids) < self.header.vocab_size:
                yield f"{what} has ids from {min(ids)} to {max(ids)} of only {self.header.vocab_size}"
        starts = [start.position for start in record.domains]
        if starts and (starts[0] != 0 or starts[-1] >= len(record.output_ids) or starts != sorted(set(starts))):
            yield f"domains begin at {starts}; the first must at 0, the others after one another within the text"
        for draft in drafts:
            yield from self._faults_of(draft, record)

    def _faults_of(self, draft: str, record: TraceRecord) -> Iterator[str]:
        runs, entropies, length = record.accepted[draft], record.entropies[draft], len(record.output_ids)
        if not len(runs) == len(entropies) == length:
            yield f"{len(runs)} runs and {len(entropies)} entropies of {draft!r} for {length} tokens of text"
        if not 0 <= min(runs) <= max(runs) <= self.header.k:
            yield f"a run of {draft!r} lies outside 0..{self.header.k}"
        if runs != accepted_runs([run > 0 for run in runs], self.header.k):
            yield f"the runs of {draft!r} contradict one another"
        num_read = sum(entropy is not None for entropy in entropies)
        if record.free_runs is not None and not _are_whole(record.free_runs[draft], runs[:num_read]):
            yield f"the free runs of {draft!r} do not fit its accepted ones"


def _are_whole(free_runs: Sequence[FreeRun], runs: Sequence[int]) -> bool:
    """Tell whether free runs are those of a draft that read as many tokens as it has ``runs``.

    One begins wherever a mistake ends, and goes on as far as it says twice: to the one place where all have to end, or
    as much beyond its own first mistake as any rule may want.
    """
    begins = [0, *(position + 1 for position, run in enumerate(runs[:-1]) if run == 0)] if runs else []
    ends = [run.start + run.num_tokens for run in free_runs]
    end_of_all = max(ends, default=0)
    wanted = [
        (begin, min(read + MAX_GAIN_TOKENS - 1, end_of_all))
        for begin, read in pairwise([*begins, len(runs)])
        if begin < end_of_all
    ]
    return (
        end_of_all >= len(runs) - 1
        and [(run.start, end) for run, end in zip(free_runs, ends, strict=True)] == wanted
        and all(run.is_whole for run in free_runs)
    )
