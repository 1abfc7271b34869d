"""Policies by name, and the rankers that need no model."""

import pytest

from memspec_actors.errors import ConfigError
from memspec_actors.scheduling.rankers import Policy, Ranking, RankingContext, StaticRanker, parse_policy

DRAFTS = ("general", "code", "math")


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("memspec", Policy(name="memspec", uses_predictor=True)),
        ("general-static", Policy(name="general-static", static_draft="general")),
        ("static:code", Policy(name="static:code", static_draft="code")),
        ("target-only", Policy(name="target-only", uses_drafts=False)),
    ],
)
def test_known_policies(text: str, policy: Policy) -> None:
    """A policy would run as another one."""
    assert parse_policy(text, DRAFTS) == policy


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("memspek", "did you mean 'memspec'?"),
        ("static-general", "known: memspec, general-static, static:NAME, target-only"),
        ("static:cod", "did you mean 'code'?"),
        ("static:", "possible: static:general, static:code, static:math"),
        ("static", "unknown policy 'static'"),
        ("target_only", "did you mean 'target-only'?"),
        ("memspec:code", "unknown policy 'memspec:code'"),
        ("target-only:", "unknown policy 'target-only:'"),
        ("", "unknown policy ''"),
    ],
)
def test_unknown_policies_are_refused_with_a_hint(text: str, hint: str) -> None:
    """A misspelt policy would silently measure something else."""
    with pytest.raises(ConfigError) as caught:
        parse_policy(text, DRAFTS)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_general_static_needs_a_general_draft() -> None:
    """The baseline of every comparison would quietly be another draft."""
    with pytest.raises(ConfigError, match=r"needs a draft named 'general'.*static:law"):
        parse_policy("general-static", ("law",))
    with pytest.raises(ConfigError, match="no drafts are configured"):
        parse_policy("static:law", ())


def test_a_static_ranker_never_changes_its_mind() -> None:
    """A static baseline would use the predictor's knowledge."""
    ranker = StaticRanker("math")
    contexts = [RankingContext(prompt_ids=(1, 2)), RankingContext(prompt_ids=(), recent_ids=(3,), interval=7)]
    assert [ranker.rank(context) for context in contexts] == [Ranking(("math",), (1.0,))] * 2
