"""If these fail, a trace file says something else than was traced, or a damaged one is read as if it were whole."""

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memspec_actors.errors import TraceError
from memspec_actors.predictor.traces import TraceReader, accepted_runs, open_trace_writer
from memspec_actors.protocols.traces import TraceHeader, TraceRecord
from tests.simulation.toys import Toys

TraceMaker = Callable[..., Path]

END = -1  # of a text: the position behind its last
SWAPPED = bytes.maketrans(b"05", b"50")


@given(agrees=st.lists(st.booleans(), max_size=30), k=st.integers(1, 6))
def test_runs_count_agreements_from_each_position_on(agrees: list[bool], k: int) -> None:
    expected = []
    for start in range(len(agrees)):
        run = 0
        while run < k and start + run < len(agrees) and agrees[start + run]:
            run += 1
        expected.append(run)
    assert list(accepted_runs(agrees, k)) == expected


def test_records_come_back_as_written_and_as_often_as_asked(make_trace: TraceMaker, tmp_path: Path) -> None:
    reader = TraceReader(make_trace("t", 5))
    records = list(reader)
    assert len(records) == 5
    with open_trace_writer(tmp_path / "again", reader.header) as writer:
        for record in records:
            writer.write(record)
    assert (tmp_path / "again").read_bytes() == reader.path.read_bytes()
    assert list(reader) == records


def test_an_interrupted_trace_leaves_nothing_behind(make_trace: TraceMaker, tmp_path: Path) -> None:
    reader = TraceReader(make_trace("t", 1))
    with pytest.raises(KeyboardInterrupt), open_trace_writer(tmp_path / "new", reader.header) as writer:
        writer.write(next(iter(reader)))
        raise KeyboardInterrupt
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t"]


@pytest.mark.parametrize(
    ("line", "old", "new", "said"),
    [
        (1, b'"format":"memspec-trace-4"', b'"format":"x"', "format 'x'"),
        (1, b'"k":5', b'"k":0', "k is 0"),
        (1, b'"k":5', b'"k":1000000000000', "k is 10*"),
        (1, b'"draft_nbytes":{"a":64,', b'"draft_nbytes":{', "size"),
        (1, b"{", b"[", "header"),
        (3, b'"a":[', b'"z":[', "drafts"),
        (3, b'"a":[', b'"a":[1,', "entropies of 'a'"),
        (3, b'"a":[5', b'"a":[9', "outside"),
        (3, b'"a":[0', b'"a":[9', "outside"),
        (3, b'"a":[5,5', b'"a":[5,3', "contradict"),
        (3, b'"entropies":{"a"', b'"entropies":{"x"', "entropies are of"),
        (3, b'"entropies":{"a":[', b'"entropies":{"a":[1.0,', "entropies of 'a'"),
        (3, b'"prompt_ids":[', b'"prompt_ids":[-1,', "prompt has ids from -1"),
        (3, b'"output_ids":[', b'"output_ids":[99999,', "text has ids from .* to 99999"),
        (3, b"}\n", b"\n", "truncated|Expected"),
        (3, b'"kind"', b'"kinds"', "kinds"),
        (3, b'"kind":"', b'"kind":"\xff', "utf-8|UTF-8"),
    ],
)
def test_damage_is_reported_with_file_and_line(
    make_trace: TraceMaker, line: int, old: bytes, new: bytes, said: str
) -> None:
    path = make_trace("t", 3)
    lines = path.read_bytes().splitlines(keepends=True)
    if old not in lines[line - 1]:  # whether 'a' begins right or wrong is the seed's choice
        old, new = old.translate(SWAPPED), new.translate(SWAPPED)
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    path.write_bytes(b"".join(lines))
    with pytest.raises(TraceError, match=f"line {line}.*({said})"):
        list(TraceReader(path))


@pytest.mark.parametrize("name", ["prompt_ids", "output_ids"])
def test_a_text_without_tokens_is_reported(make_trace: TraceMaker, name: str) -> None:
    """A replay would end in an index that is out of range."""
    path = make_trace("t", 3)
    filled, empty = rf'"{name}":\[[\d,]+\]', f'"{name}":[]'
    path.write_text(re.sub(filled, empty, path.read_text(), count=1))
    with pytest.raises(TraceError, match=r"line 2: the (prompt|text) has no tokens"):
        list(TraceReader(path))


@pytest.mark.parametrize("positions", [[1], [0, 0], [0, 3, 2], [0, END]])
def test_domains_that_are_not_in_order_are_reported(make_trace: TraceMaker, positions: list[int]) -> None:
    path = make_trace("t", 1)
    (record,) = TraceReader(path)
    ends = {END: len(record.output_ids)}
    starts = ",".join(f'[{ends.get(position, position)},"law"]' for position in positions)
    path.write_text(path.read_text().replace('"domains":[]', f'"domains":[{starts}]'))
    with pytest.raises(TraceError, match=r"line 2: domains begin at \["):
        list(TraceReader(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nowhere"):
        TraceReader(tmp_path / "nowhere")


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    rate=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    max_new_tokens=st.integers(1, 60),
    contexts=st.tuples(st.integers(4, 70), st.integers(1, 70)),
    num_known=st.sampled_from([8, 12, 17, 17]),
)
def test_free_runs_come_back_whoever_ran(
    seed: int, rate: float, max_new_tokens: int, contexts: tuple[int, int], num_known: int
) -> None:
    """However a text, a context or what a draft knows ends, its trace would not be taken for a whole one."""
    toys = Toys(seed=seed, rates=[rate, 0.3], max_new_tokens=max_new_tokens, k=5)
    toys.target.max_positions, toys.drafts["d0"].max_positions = contexts
    toys.drafts["d1"].vocab_size = num_known
    header, record = toys.trace(free_runs=True)
    with TemporaryDirectory() as scratch:
        assert _read_back(Path(scratch) / "t", header, record) == [record]


@pytest.mark.parametrize("lacks", ["run", "token", "all"])
def test_free_runs_that_lack_something_are_reported(tmp_path: Path, lacks: str) -> None:
    """A replay would stop drafts where their runs end, and give figures that are no rule's."""
    header, record = Toys(seed=1, rates=[0.3], max_new_tokens=20, k=5).trace(free_runs=True)
    assert record.free_runs is not None
    runs = record.free_runs["d0"]
    for i, run in enumerate(runs):
        shorter = run.shortened(run.num_tokens - 1)
        damaged = {
            "run": (*runs[:i], *runs[i + 1 :]),
            "token": (*runs[:i], shorter, *runs[i + 1 :]),
            "all": (),
        }[lacks]
        with pytest.raises(TraceError, match="line 2: the free runs of 'd0' do not fit"):
            _read_back(tmp_path / "t", header, replace(record, free_runs={"d0": damaged}))


def _read_back(path: Path, header: TraceHeader, record: TraceRecord) -> list[TraceRecord]:
    with open_trace_writer(path, header) as writer:
        writer.write(record)
    return list(TraceReader(path))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"free_runs":{"d0"', b'"free_runs":{"x"', "free runs are of"),
        (b'"free_runs":{"d0":[[0,', b'"free_runs":{"d0":[[1,', "do not fit"),
        (b'"free_runs":{"d0":[[0,"', b'"free_runs":{"d0":[[0,"AAAA', "do not fit"),
        (b'"free_runs":{"d0":[[0,"', b'"free_runs":{"d0":[[0,"?', "base64"),
    ],
)
def test_damaged_free_runs_are_reported(tmp_path: Path, old: bytes, new: bytes, said: str) -> None:
    header, record = Toys(seed=1, rates=[0.3], max_new_tokens=20, k=5).trace(free_runs=True)
    assert _read_back(tmp_path / "t", header, record) == [record]
    whole = (tmp_path / "t").read_bytes()
    assert old in whole
    (tmp_path / "t").write_bytes(whole.replace(old, new, 1))
    with pytest.raises(TraceError, match=f"line 2.*{said}"):
        list(TraceReader(tmp_path / "t"))
