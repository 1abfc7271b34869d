"""If these fail, a sweep over lengths or drafts simulates texts that no trace would have recorded."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memspec_actors.protocols.traces import DomainStart
from memspec_actors.simulation.texts import recut, shortened, with_drafts
from tests.simulation.toys import Toys


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), length=st.integers(1, 40), k=st.integers(1, 5))
def test_a_shortened_trace_is_the_trace_of_a_shorter_text(seed: int, length: int, k: int) -> None:
    rates = [0.1, 0.5]
    longer = Toys(seed=seed, rates=rates, max_new_tokens=40, k=k).trace(free_runs=True)
    header, record = Toys(seed=seed, rates=rates, max_new_tokens=length, k=k).trace(free_runs=True)
    cut_header, cut = shortened(longer, length)
    assert (cut_header, cut.output_ids, cut.accepted, cut.entropies, cut.free_runs) == (
        header,
        record.output_ids,
        record.accepted,
        record.entropies,
        record.free_runs,
    )


def test_a_shortened_trace_ends_in_the_domain_that_its_text_ends_in() -> None:
    header, record = Toys(seed=1, rates=[0.5], max_new_tokens=40, k=5, eos_ids=frozenset()).trace()
    starts = (DomainStart(0, "law"), DomainStart(9, "code"), DomainStart(10, "law"), DomainStart(30, "math"))
    _, cut = shortened((header, replace(record, domains=starts)), 10)
    assert cut.domains == starts[:2]


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 5), other=st.integers(1, 9))
def test_a_trace_recut_is_the_trace_for_that_draft_length(seed: int, k: int, other: int) -> None:
    header, record = Toys(seed=seed, rates=[0.1, 0.5], max_new_tokens=40, k=other).trace()
    recut_header, recut_record = recut(Toys(seed=seed, rates=[0.1, 0.5], max_new_tokens=40, k=k).trace(), other)
    assert (recut_header, recut_record.accepted) == (header, record.accepted)


def test_a_trace_with_fewer_drafts_is_the_trace_of_those() -> None:
    toys = Toys(seed=1, rates=[0.1, 0.5, 0.9], max_new_tokens=30, k=3)
    full = toys.trace(free_runs=True)
    del toys.drafts["d1"]
    assert with_drafts(full, ["d0", "d2"]) == toys.trace(free_runs=True)
