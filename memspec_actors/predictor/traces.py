"""Write and read trace files, record by record."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from memspec_actors.errors import TraceError
from memspec_actors.output_files import whole_file
from memspec_actors.protocols.traces import FLOAT_BYTES, TRACE_FORMATS, FreeRun, TraceHeader, TraceRecord

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
        if header.format not in TRACE_FORMATS:
            known = " or ".join(map(repr, TRACE_FORMATS))
            raise TraceError(f"{self.path}, line 1: format {header.format!r} is not {known}; collect it again")
        if list(header.draft_nbytes) != list(header.drafts) or min(header.draft_nbytes.values(), default=1) < 1:
            raise TraceError(f"{self.path}, line 1: draft_nbytes {header.draft_nbytes} must give every draft a size")
        if not header.drafts or not 1 <= header.k <= MAX_K:
            raise TraceError(
                f"{self.path}, line 1: a trace needs at least one draft and a k of 1 to {MAX_K} (k is {header.k})"
            )
        return header

    def _check(self, record: TraceRecord, number: int) -> None:
        where = f"{self.path}, line {number}"
        if list(record.accepted) != list(self.header.drafts):
            raise TraceError(
                f"{where}: drafts {list(record.accepted)} differ from the header's {list(self.header.drafts)}"
            )
        if list(record.entropies) != list(self.header.drafts):
            raise TraceError(f"{where}: entropies are of {list(record.entropies)}; they must be of the same drafts")
        if record.free_runs is not None and list(record.free_runs) != list(self.header.drafts):
            raise TraceError(f"{where}: free runs are of {list(record.free_runs)}; they must be of the same drafts")
        length = len(record.output_ids)
        self._check_ids(record.prompt_ids, f"{where}: the prompt")
        self._check_ids(record.output_ids, f"{where}: the text")
        for draft, runs in record.accepted.items():
            if not len(runs) == len(record.entropies[draft]) == length:
                raise TraceError(
                    f"{where}: {len(runs)} runs and {len(record.entropies[draft])} entropies of {draft!r} for {length}"
                    f" tokens of text"
                )
            if runs and not 0 <= min(runs) <= max(runs) <= self.header.k:
                raise TraceError(f"{where}: a run of {draft!r} lies outside 0..{self.header.k}")
            if runs != accepted_runs([run > 0 for run in runs], self.header.k):
                raise TraceError(f"{where}: the runs of {draft!r} contradict one another; collect the trace again")
            if record.free_runs is not None and not _are_whole(record.free_runs[draft], runs):
                raise TraceError(f"{where}: the free runs of {draft!r} do not fit its accepted ones; collect it again")

    def _check_ids(self, ids: Sequence[int], what: str) -> None:
        if not ids:
            raise TraceError(f"{what} has no tokens; collect it again")
        if not 0 <= min(ids) <= max(ids) < self.header.vocab_size:
            raise TraceError(f"{what} has ids from {min(ids)} to {max(ids)} of only {self.header.vocab_size}")


def _are_whole(free_runs: Sequence[FreeRun], runs: Sequence[int]) -> bool:
    """Tell whether free runs begin where mistakes end, and each is as long as it says twice."""
    begins = [0, *(position + 1 for position, run in enumerate(runs) if run == 0)]
    return [run.start for run in free_runs] == begins[: len(free_runs)] and all(
        len(run.confidences) == len(run.entropies) > 0 == len(run.confidences) % FLOAT_BYTES for run in free_runs
    )
