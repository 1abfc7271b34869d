"""The API's description against the running daemon: whatever it allows must be answered, and never with a failure."""

from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from memspec_actors.protocols.http_requests import CompletionRequest

MODEL = "memspec-zoo"
ENDLESS = ["/events"]
# What a schema cannot say is refused too: token ids that the model lacks, batches, a draft that is not there.
LEFT_OUT = [positive_data_acceptance]


def schema_of(daemon: str) -> Any:
    return schemathesis.openapi.from_url(f"{daemon}/openapi.json").exclude(path=ENDLESS)


def test_no_request_that_the_description_allows_or_forbids_is_a_failure(daemon: str) -> None:
    """A 5xx, a reply that is not as described, or a status that is not: clients would break on it."""
    schema = schema_of(daemon)
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=12,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        )
        @given(operation.as_strategy())
        def check(case: Any) -> None:
            if isinstance(case.body, dict) and case.method == "POST":
                case.body["model"] = MODEL  # or all end in "no such model"
                case.body["max_tokens"] = 2
                case.body.pop("max_completion_tokens", None)
                case.body.pop("min_tokens", None)
            case.call_and_validate(excluded_checks=LEFT_OUT)

        check()


def test_the_description_names_every_field_with_its_limits(daemon: str) -> None:
    document = httpx2.get(f"{daemon}/openapi.json").json()
    fields = document["components"]["schemas"]["CompletionRequest"]["properties"]
    assert set(fields) == set(CompletionRequest.__struct_fields__)
    assert {"minimum": 0, "maximum": 64, "type": "integer"} in fields["num_draft_tokens"]["anyOf"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"model": "memspec-zoo", "prompt": "\\ud800"}',
        b'{"model": "memspec-zoo", "prompt": [-1]}',
        b'{"model": "memspec-zoo", "prompt": [99999999]}',
        b'{"model": "memspec-zoo", "prompt": "x", "temperature": NaN}',
        b'{"model": "memspec-zoo", "prompt": "x", "temperature": 1e999}',
        b'{"model": "memspec-zoo", "prompt": "x", "max_tokens": 99999999999999999999}',
        b'{"model": "memspec-zoo", "prompt": "x", "max_tokens": 2, "min_tokens": 3}',
        b'{"model": "memspec-zoo", "prompt": "x", "logit_bias": {"a": 1}}',
        b'{"model": "memspec-zoo", "prompt": "x", "logit_bias": {"2000000": 1}}',
        b'{"model": "memspec-zoo", "prompt": "x", "' + b"y" * 100_000 + b'": 1}',
    ],
)
def test_a_body_that_cannot_be_used_is_a_bad_request(daemon: str, body: bytes) -> None:
    """Nothing of the inside may show: no traceback, no path, one line."""
    reply = httpx2.post(f"{daemon}/v1/completions", content=body, timeout=60)
    assert reply.status_code == 400, reply.text
    message = reply.json()["error"]["message"]
    assert 0 < len(message) < 1000, "the daemon would be busy with repeating what it was told"
    assert not any(sign in message for sign in ("Traceback", "\n", ".py", "/"))
