"""The metrics against plain loops over the events of a real run."""

from collections import Counter
from typing import Any

import pytest

from memspec_actors import MemSpec
from memspec_actors.daemon.metrics import Metrics
from memspec_actors.protocols import events
from memspec_actors.protocols.messages import ResidentDraft

pytestmark = pytest.mark.anyio

PROMPT = "caution Buspril for Femer, age 32; compose new_beto for Pulal, limit=50; gather 8 breamols for Waman"


async def test_metrics_of_a_run_equal_what_its_events_and_results_say() -> None:
    """A dashboard or an alert would be wrong; counters obey accepted <= drafted, sum over positions = accepted."""
    seen: list[events.Event] = []
    metrics = Metrics(lambda: 3)

    def listen(event: events.Event) -> None:
        seen.append(event)
        metrics.observe(event)

    async with MemSpec.open(on_event=listen) as engine:
        result = await engine.generate(PROMPT, max_new_tokens=120)
        await engine.steer_draft("unload", engine.residency().resident[0])
        resident = set(engine.residency().resident)
        shown = {name for name in engine.drafts if value(metrics, "memspec:draft_resident", draft=name)}
        assert shown == resident
    spec = result.metrics.speculative_decoding
    assert value(metrics, "memspec:spec_decode_num_drafts_total") == spec.num_spec_steps
    assert value(metrics, "memspec:spec_decode_num_draft_tokens_total") == spec.num_draft_tokens
    assert value(metrics, "memspec:spec_decode_num_accepted_tokens_total") == spec.num_accepted_draft_tokens
    name = "memspec:spec_decode_num_accepted_tokens_per_pos_total"
    told = [value(metrics, name, position=str(i)) or 0 for i in range(len(spec.acceptance_histogram))]
    assert told == list(spec.acceptance_histogram)
    assert value(metrics, "memspec:generation_tokens_total") == result.usage.completion_tokens
    assert value(metrics, "memspec:prompt_tokens_total") == result.usage.prompt_tokens
    assert value(metrics, "memspec:time_to_first_token_seconds_sum") == result.timing.time_to_first_token_s
    assert value(metrics, "memspec:requests_finished_total", reason=result.finish_reason) == 1
    assert value(metrics, "memspec:num_requests_running") == 1
    assert value(metrics, "memspec:num_requests_waiting") == 2
    iterations = [event for event in seen if isinstance(event, events.Iteration)]
    for share, num in Counter(event.share for event in iterations).items():
        assert value(metrics, "memspec:iterations_total", share=share) == num
    predictions = [event.predict_us / 1e6 for event in seen if isinstance(event, events.PredictionMade)]
    assert value(metrics, "memspec:prediction_seconds_count") == len(predictions)
    assert value(metrics, "memspec:prediction_seconds_sum") == pytest.approx(sum(predictions))
    loads = Counter(event.draft.name for event in seen if isinstance(event, events.DraftLoadFinished))
    for draft, num in loads.items():
        assert value(metrics, "memspec:draft_loads_total", draft=draft, result="finished") == num
        assert value(metrics, "memspec:draft_load_seconds_count", draft=draft) == num
    used = {event.draft for event in seen if isinstance(event, events.DraftActivatedEvent) and event.draft}
    freed = {event.draft for event in seen if isinstance(event, events.DraftEvicted)}
    assert value(metrics, "memspec:prefetches_total", result="useful") == len(used)
    assert value(metrics, "memspec:prefetches_total", result="wasted") == len(freed - used)
    assert sum(sample.value for sample in samples(metrics, "memspec:draft_evictions_total")) == len(freed)
    assert any(sample.labels["reason"] == "asked_for" for sample in samples(metrics, "memspec:draft_evictions_total"))


def test_a_load_that_nobody_wanted_any_more_is_told_from_an_eviction() -> None:
    metrics = Metrics(lambda: 0)
    draft = ResidentDraft("law", 1)
    sizes: dict[str, Any] = {"resident_bytes": 0, "reserved_bytes": 0}
    metrics.observe(events.DraftEvicted(actor="a", draft=draft, nbytes=1, acknowledged_epoch=0, **sizes))
    assert value(metrics, "memspec:draft_evictions_total", draft="law", reason="superseded") == 1
    assert value(metrics, "memspec:prefetches_total", result="wasted") == 1
    assert value(metrics, "memspec:num_requests_running") == 0


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def samples(metrics: Metrics, name: str) -> list[Any]:
    return [each for family in metrics.registry.collect() for each in family.samples if each.name == name]
