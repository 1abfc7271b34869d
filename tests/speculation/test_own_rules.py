"""Rules of a user's own; if wrong, what the README shows does not run, or a wrong name fails far from its cause."""

import re
import sys
from pathlib import Path

import pytest
import torch

from memspec_actors import MemSpec
from memspec_actors.errors import ConfigError
from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.speculation.accept import Proposal
from memspec_actors.speculation.lossy import Judged, Relaxed
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.sampling import PositionNoise
from memspec_actors.speculation.stop import stop_rule

README = Path(__file__).parents[2] / "README.md"


class TopTwo(Relaxed):
    def tolerates(self, judged: Judged, i: int) -> bool:
        return judged.proposal.ids[i] in judged.target_logits[i].topk(2).indices


@pytest.fixture
def readme_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Put the README's rule into a module, as it stands there, and return its name."""
    (code,) = re.findall(r"```python\n(class \w+:\n.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    (tmp_path / "readme_rules.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "readme_rules", raising=False)
    name: str = code.partition(":")[0].removeprefix("class ")
    return f"readme_rules:{name}"


@pytest.mark.anyio
async def test_the_readmes_own_rule_decides_how_much_is_drafted(readme_rule: str) -> None:
    async with MemSpec.open() as engine:
        options = {"max_new_tokens": 40, "policy": "static:general"}
        reference = await engine.generate("bill 7 breamols for Waman", **options)
        result = await engine.generate("bill 7 breamols for Waman", **options, stop=readme_rule)
    assert result.token_ids == reference.token_ids and result.lossless
    lengths = len(result.metrics.speculative_decoding.acceptance_histogram)
    assert 5 < lengths <= 12, "drafts of other lengths than the rule's"


def test_a_rule_of_ones_own_stops_where_it_says(readme_rule: str) -> None:
    rule = stop_rule(readme_rule)
    for signals, expected in (((0.9, 0.4, 0.9, 0.3), (True, True, True, False)), ((0.1, 0.6), (True, True))):
        assert tuple(rule.keep_drafting(n, signal) for n, signal in enumerate(signals, 1)) == expected


def test_an_acceptance_rule_of_ones_own_tolerates_what_it_says() -> None:
    rule = acceptance_rule(f"{__name__}:TopTwo", greedy=True)
    assert not rule.lossless and rule.name == f"{__name__}:TopTwo"
    logits = torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
    probs = torch.full((2, 3), 1 / 3)
    verdict = rule.verify(Proposal((1, 2), probs), logits, SamplingParams(), PositionNoise(0), 0)
    assert (verdict.num_accepted, verdict.next_id, verdict.departures) == (1, 0, (0,))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_module:Rule", "No module named 'no_such_module'"),
        ("collections:Rule", "module 'collections' has no attribute 'Rule'"),
        ("collections:OrderedDict", "that is no stop rule"),
        ("os:path", "that makes no stop rule: 'module' object is not callable"),
        ("collections:namedtuple", "that makes no stop rule: "),
    ],
)
def test_a_name_that_leads_to_no_rule_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"stop is '{name}', but {why}"):
        stop_rule(name)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("class Rule(:", r"its module fails: SyntaxError: .* \(mistaken_rules.py, line 1\)"),
        ("1 / 0", "its module fails: ZeroDivisionError: division by zero"),
        ("class Rule:\n    def __init__(self): {}['x']", "that fails: KeyError: 'x'"),
    ],
)
def test_a_rule_with_a_mistake_is_refused_with_it(
    code: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be called unexpected, as if the mistake were ours."""
    (tmp_path / "mistaken_rules.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mistaken_rules", raising=False)
    with pytest.raises(ConfigError, match=f"stop is 'mistaken_rules:Rule', but {why}"):
        stop_rule("mistaken_rules:Rule")


def test_what_is_no_acceptance_rule_is_refused() -> None:
    """A stop rule given as the other kind would fail in the middle of a text."""
    with pytest.raises(ConfigError, match="accept is 'collections:UserString', but that is no acceptance rule"):
        acceptance_rule("collections:UserString", greedy=True)
