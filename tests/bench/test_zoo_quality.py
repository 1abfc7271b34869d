"""If these fail, the figures of the embedded models' card are not what decoding would give."""

import pytest

from memspec_actors.bench.zoo_quality import always, best_dynamic, best_static, decode, evaluation_requests
from memspec_actors.predictor.traces import accepted_runs
from memspec_actors.protocols.traces import TraceRecord
from memspec_actors.zoo.world import DOMAINS


def trace_of(**matches: str) -> TraceRecord:
    runs = {name: accepted_runs([hit == "1" for hit in hits], 5) for name, hits in matches.items()}
    length = len(next(iter(runs.values())))
    entropies = dict.fromkeys(runs, (1.0,) * length)
    return TraceRecord(prompt_ids=(1,), output_ids=(7,) * length, accepted=runs, entropies=entropies)


def test_iterations_accept_until_the_first_miss() -> None:
    """Worked out by hand: the prefill's token, then iterations of 2 + 1, 0 + 1, 5 + 1 and the last two tokens."""
    run = decode(trace_of(a="0110011111111"), always("a"))
    assert (run.iterations, run.accepted, run.tokens) == (4, 2 + 0 + 5 + 2, 12)


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
