"""The trace: what Perfetto needs to show it as it was."""

import itertools
from collections import defaultdict
from typing import Any

from memspec_actors.protocols import events
from memspec_actors.telemetry.storyteller import tell_story
from memspec_actors.telemetry.trace import chrome_trace
from tests.telemetry.conftest import RealRun

Row = dict[str, Any]


def rows_of(run: RealRun) -> list[Row]:
    rows: list[Row] = chrome_trace(tell_story(run.records))["traceEvents"]
    return rows


def slices_by_track(rows: list[Row]) -> dict[tuple[int, int], list[Row]]:
    tracks: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["ph"] == "X":
            tracks[row["pid"], row["tid"]].append(row)
    return tracks


def test_every_actor_draft_and_request_has_a_named_track(run: RealRun) -> None:
    rows = rows_of(run)
    names = {row["args"]["name"] for row in rows if row["name"] == "thread_name"}
    drafts = {event.draft.name for event in run.records if isinstance(event, events.DraftLoadStarted)}
    assert {"decoder", "predictor", "cache_manager", "loader"} | drafts <= names
    assert {result.request_id for result in run.results} <= names
    named = {(row["pid"], row["tid"]) for row in rows if row["name"] == "thread_name"}
    assert set(slices_by_track(rows)) <= named


def test_slices_of_a_track_lie_beside_or_within_one_another(run: RealRun) -> None:
    """Perfetto drops what overlaps halfway."""
    for track, slices in slices_by_track(rows_of(run)).items():
        if track[0] == 1 and any(row["name"].startswith("draft_") for row in slices):
            slices = [row for row in slices if row["dur"] > 1.0]  # moments are short and may touch an iteration
        ordered = sorted((row["ts"], row["ts"] + row["dur"]) for row in slices)
        for (_, end), (start, other_end) in itertools.pairwise(ordered):
            assert start >= end - 1.0 or other_end <= end + 1.0, track


def test_arrows_begin_and_end_in_slices_and_go_forward(run: RealRun) -> None:
    rows = rows_of(run)
    tracks = slices_by_track(rows)
    ends: dict[str, dict[int, Row]] = {"s": {}, "f": {}}
    for row in rows:
        if row["ph"] in ends:
            ends[row["ph"]][row["id"]] = row
            track = tracks[row["pid"], row["tid"]]
            assert any(each["ts"] <= row["ts"] <= each["ts"] + each["dur"] for each in track), row
    assert ends["s"].keys() == ends["f"].keys()
    assert all(ends["s"][number]["ts"] <= row["ts"] for number, row in ends["f"].items())


def test_the_way_from_scheduling_point_to_activation_is_whole(run: RealRun) -> None:
    """Prediction, load, announcement, activation: each one linked to what caused it."""
    names = [row["name"] for row in rows_of(run) if row["ph"] == "s"]
    story = tell_story(run.records)
    assert names.count("ranking") == sum(span.state == "loading" for span in story.drafts)
    activated = [e for e in run.records if isinstance(e, events.DraftActivatedEvent) and e.draft is not None]
    assert names.count("announcement") == len(activated)
    announced = {draft for e in run.records if isinstance(e, events.ResidencyAnnouncedEvent) for draft in e.resident}
    assert names.count("load") == len(announced)
    assert names.count("scheduling point") > 0
