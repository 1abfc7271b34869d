"""``memspec bench`` refuses what cannot come to anything before it begins to measure."""

import pytest

from memspec_actors.bench import adasd, policies
from memspec_actors.cli import main


@pytest.fixture(autouse=True)
def _nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    async def measure(*_: object, **__: object) -> None:
        pytest.fail("the work has begun")

    monkeypatch.setattr(policies, "throttled", measure)
    monkeypatch.setattr(adasd, "compare", measure)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["policies", "--json", "no/such/place"], "no/such"),
        (["policies", "--json", "."], "directory"),
        (["policies", "--count", "-3"], "--count"),
        (["policies", "--count", "0"], "--count"),
        (["policies", "--runs", "0"], "--runs"),
        (["policies", "--max-new-tokens", "-1"], "--max-new-tokens"),
        (["policies", "--load-ratio", "nan"], "--load-ratio"),
        (["policies", "--load-ratio", "0"], "--load-ratio"),
        (["policies", "--load-ratio", "inf"], "--load-ratio"),
        (["adasd", "--json", "taken/place"], "taken"),
        (["adasd", "--json", "."], "directory"),
        (["adasd", "--figure", "no/such/place.png"], "no/such"),
        (["adasd", "--figure", "speed.ups"], ".png"),
        (["adasd", "--count", "0"], "--count"),
        (["adasd", "--max-new-tokens", "0"], "--max-new-tokens"),
    ],
)
@pytest.mark.usefixtures("untouched")
def test_bad_use_is_one_line_before_the_work(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An hour of decoding would end in an error about a path, or in a division by zero."""
    assert main(["bench", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("memspec: error: ") and error.count("\n") == 1 and said in error
