"""What operators and their tools read from the running daemon."""

import json
import time
from typing import Any

import httpx2
import msgspec
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from memspec_actors.protocols.events import SystemStarted
from tests.patience import PATIENCE_S


def test_health_is_ok_once_models_are_loaded(daemon: str) -> None:
    reply = httpx2.get(f"{daemon}/health")
    assert (reply.status_code, reply.json()) == (200, {"status": "ok"})


def test_metrics_are_what_prometheus_reads(daemon: str, client: openai.OpenAI) -> None:
    """A scraper drops a target whose page it cannot parse."""
    client.completions.create(model="memspec-zoo", prompt=[5, 6], max_tokens=6)
    reply = httpx2.get(f"{daemon}/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    for name in ("spec_decode_num_drafts", "requests_finished", "draft_load_seconds", "num_requests_waiting"):
        assert f"memspec:{name}" in families
    drafts = {sample.labels["draft"] for sample in families["memspec:draft_resident"].samples}
    assert drafts == {"general", "code", "math", "law", "medical"}


@pytest.mark.parametrize("parameters", ["version=abc", 'version="1.0.0"', "version", "version=1..0;escaping", ";;=;"])
def test_metrics_are_served_whatever_form_a_client_says_it_takes(daemon: str, parameters: str) -> None:
    """A header that is no good would have the daemon fail and write a traceback."""
    reply = httpx2.get(f"{daemon}/metrics", headers={"Accept": f"application/openmetrics-text; {parameters}"})
    assert reply.status_code == 200
    assert "memspec:num_requests_waiting" in reply.text


def events_after(daemon: str, last_id: int, num: int) -> list[tuple[int, bytes]]:
    """Read (id, data) of ``num`` server-sent events."""
    read: list[tuple[int, bytes]] = []
    with httpx2.stream("GET", f"{daemon}/events", headers={"Last-Event-ID": str(last_id)}, timeout=60) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        number = 0
        for line in reply.iter_lines():
            if line.startswith("id: "):
                number = int(line.removeprefix("id: "))
            elif line.startswith("data: "):
                read.append((number, line.removeprefix("data: ").encode()))
                if len(read) == num:
                    return read
    raise AssertionError(f"the stream ended after {len(read)} events")


def test_events_are_the_logs_records_and_go_on_where_one_left(daemon: str) -> None:
    """A tail over HTTP would miss records, repeat some, or read what is no record."""
    first = events_after(daemon, 0, 4)
    assert [number for number, _ in first] == [1, 2, 3, 4]
    assert [json.loads(data)["seq"] for _, data in first] == [1, 2, 3, 4]
    assert msgspec.json.decode(first[0][1], type=SystemStarted).capacity == 2
    assert events_after(daemon, 2, 2) == first[2:]


def test_a_wrong_event_id_is_refused(daemon: str) -> None:
    reply = httpx2.get(f"{daemon}/events", headers={"Last-Event-ID": "last"})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "Last-Event-ID"


def status_of(daemon: str, name: str) -> dict[str, Any]:
    reply = httpx2.get(f"{daemon}/drafts").json()
    (status,) = [each for each in reply["data"] if each["name"] == name]
    assert isinstance(status, dict)
    return status


def wait_until_loaded(daemon: str, name: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while status_of(daemon, name)["status"] != "loaded":
        assert time.monotonic() < deadline, f"{name} is not loaded after a minute"
        time.sleep(0.01)


def test_drafts_are_loaded_pinned_and_unloaded_as_asked(daemon: str, client: openai.OpenAI) -> None:
    assert httpx2.post(f"{daemon}/drafts/law/pin").json()["pinned"] is True
    wait_until_loaded(daemon, "law")
    for name in ("code", "math"):
        client.completions.create(model="memspec-zoo", prompt=[5, 6], max_tokens=8, extra_body={"draft_model": name})
        assert status_of(daemon, "law")["status"] == "loaded"
    listed = httpx2.get(f"{daemon}/drafts").json()
    assert sum(each["status"] == "loaded" for each in listed["data"]) <= listed["capacity"] == 2
    assert listed["resident_bytes"] <= listed["budget_bytes"]
    answer = httpx2.post(f"{daemon}/drafts/law/unload").json()
    assert (answer["pinned"], answer["status"]) == (False, "unloaded")
    assert status_of(daemon, "law")["status"] == "unloaded"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/drafts/lwa/load", 404, "no_such_draft"),
        ("/drafts/law/delete", 404, "no_such_wish"),
        ("/drafts/law", 404, None),
        ("/v2", 404, None),
    ],
)
def test_what_is_not_there_is_an_error_object(daemon: str, path: str, status: int, code: str | None) -> None:
    reply = httpx2.post(f"{daemon}{path}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)


def test_pins_beyond_the_capacity_are_refused(daemon: str) -> None:
    names = ("code", "math", "law")
    replies = [httpx2.post(f"{daemon}/drafts/{name}/pin") for name in names]
    assert [reply.status_code for reply in replies] == [200, 200, 409]
    assert "room for 2 drafts" in replies[2].json()["error"]["message"]
    for name in names:
        assert httpx2.post(f"{daemon}/drafts/{name}/unpin").status_code == 200
