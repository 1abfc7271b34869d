"""If these fail, the score that the predictor is compared with is not that of knowing the domains."""

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from memspec_actors import zoo
from memspec_actors.bench.domain_knowledge import WINDOW, domain_knowledge
from memspec_actors.errors import TraceError
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.predictor.domains import domain_starts
from memspec_actors.predictor.examples import scheduling_points
from memspec_actors.predictor.traces import TraceReader, accepted_runs, open_trace_writer
from memspec_actors.predictor.utility import UtilityParams
from memspec_actors.protocols.traces import TRACE_FORMAT, TraceHeader, TraceRecord
from memspec_actors.zoo import world

K = 5


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.open(zoo.path("target"))


def _record(tokenizer: Tokenizer, request: world.Request, rng: random.Random, kind: str) -> TraceRecord:
    """Every draft agrees with half of all tokens, with two in three of its own domain's."""
    answer = tokenizer.encode(request.answer_text, add_special_tokens=False)
    own = request.items[0].domain
    agrees = {name: [rng.random() < (0.66 if name == own else 0.5) for _ in answer] for name in world.DOMAINS}
    return TraceRecord(
        prompt_ids=tuple(tokenizer.encode(request.prompt_text)),
        output_ids=tuple(answer),
        accepted={name: accepted_runs(row, K) for name, row in agrees.items()},
        entropies=dict.fromkeys(world.DOMAINS, (0.0,) * len(answer)),
        kind=kind,
        domains=domain_starts(tokenizer.encode(request.prompt_text), answer, tokenizer, kind),
    )


def _write(path: Path, tokenizer: Tokenizer, records: list[TraceRecord]) -> Path:
    header = TraceHeader(
        format=TRACE_FORMAT,
        target="t",
        drafts=dict.fromkeys(world.DOMAINS, "d"),
        draft_nbytes=dict.fromkeys(world.DOMAINS, 1),
        k=K,
        max_new_tokens=420,
        vocab_size=tokenizer.num_ids,
        eos_ids=(),
        iteration_us=None,
        versions={},
    )
    with open_trace_writer(path, header) as writer:
        for record in records:
            writer.write(record)
    return path


def _course(record: TraceRecord) -> list[str]:
    """Give the domain of every token."""
    ends = [*(start.position for start in record.domains[1:]), len(record.output_ids)]
    return [start.domain for start, end in zip(record.domains, ends, strict=True) for _ in range(start.position, end)]


def test_the_best_draft_on_average_is_first_whatever_the_luck(tokenizer: Tokenizer, tmp_path: Path) -> None:
    rng = random.Random(1)
    requests = [world.sample_request(rng, (domain,) * 3, "eval") for domain in world.DOMAINS for _ in range(4)]
    records = [_record(tokenizer, request, rng, request.items[0].domain) for request in requests]
    path = _write(tmp_path / "traces", tokenizer, records)
    for kind in (None, "law"):
        judged = [record for record in TraceReader(path) if kind in (None, record.kind)]
        points = [point for record in judged for point in scheduling_points(record, UtilityParams())]
        top1 = sum(world.DOMAINS.index(point.kind) in point.labels for point in points) / len(points)
        known = domain_knowledge(path, kind)
        assert known["top1"] == pytest.approx(top1)
        assert 0.5 < known["top1"] < known["top2"] < 1


def test_what_fills_most_of_the_next_window_is_first(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Drafts that agree in their own domain and nowhere else: at a point, the commonest domain ahead is the answer."""
    rng, records = random.Random(3), []
    for _ in range(6):
        record = _record(tokenizer, world.sample_request(rng, rng.sample(world.DOMAINS, 3), "eval"), rng, "mixed")
        course = _course(record)
        accepted = {name: accepted_runs([domain == name for domain in course], K) for name in world.DOMAINS}
        records.append(replace(record, accepted=accepted))
    right = []
    for record in records:
        domains = _course(record)
        for point in scheduling_points(record, UtilityParams()):
            start = len(point.recent_ids) or 1
            ahead = domains[start : start + WINDOW]
            most = max(world.DOMAINS, key=ahead.count)
            right.append(world.DOMAINS.index(most) in point.labels)
    known = domain_knowledge(_write(tmp_path / "traces", tokenizer, records))
    assert known["top1"] == pytest.approx(sum(right) / len(right))


def test_a_text_of_unknown_domain_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    rng = random.Random(2)
    known = _record(tokenizer, world.sample_request(rng, ("law",), "eval"), rng, "law")
    path = _write(tmp_path / "traces", tokenizer, [known, replace(known, domains=())])
    with pytest.raises(TraceError, match="line 3: does not say which domains"):
        domain_knowledge(path)
