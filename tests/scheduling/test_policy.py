"""Policies by name and with their options."""

import pytest

from memspec_actors.errors import ConfigError
from memspec_actors.scheduling.policy import Policy, parse_policy

DRAFTS = ("general", "code", "math")


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("memspec", Policy(name="memspec", ranked_by="predictor")),
        ("prediction-only", Policy(name="prediction-only", ranked_by="predictor", prefetches=False)),
        ("general-static", Policy(name="general-static", ranked_by="one draft", static_draft="general")),
        ("static:code", Policy(name="static:code", ranked_by="one draft", static_draft="code")),
        ("target-only", Policy(name="target-only", ranked_by="nothing")),
        ("oracle-dynamic", Policy(name="oracle-dynamic", ranked_by="plan")),
        ("hedge", Policy(name="hedge", ranked_by="hedge", learns=True, reads_along=True)),
        (
            "memspec+",
            Policy(name="memspec+", ranked_by="overruled predictor", learns=True, hears=True),
        ),
        ("mab-async", Policy(name="mab-async", ranked_by="ucb", prefetches=False, learns=True, exploration=2.0)),
        (
            "mab-sync:c=0.5,shared",
            Policy(
                name="mab-sync:c=0.5,shared",
                ranked_by="ucb",
                prefetches=False,
                waits_for_load=True,
                learns=True,
                shared=True,
                exploration=0.5,
            ),
        ),
    ],
)
def test_known_policies(text: str, policy: Policy) -> None:
    """A policy would run as another one."""
    assert parse_policy(text, DRAFTS) == policy


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("mab-exp3:gamma=0", "'gamma=0' must give a number in (0, 1]"),
        ("hedge:discount=1.1", "'discount=1.1' must give a number in (0, 1]"),
        ("hedge:shared", "unknown option 'shared'"),
        ("memspek", "did you mean 'memspec'?"),
        ("static-general", "known: memspec, prediction-only, "),
        ("static:cod", "did you mean 'code'?"),
        ("static:", "possible: static:general, static:code, static:math"),
        ("static", "unknown policy 'static'"),
        ("target_only", "did you mean 'target-only'?"),
        ("", "unknown policy ''"),
        ("memspec:code", "unknown option 'code'; possible: none"),
        ("target-only:", "unknown option ''"),
        ("mab-async:d=1", "unknown option 'd=1'; possible: c, shared"),
        ("mab-async:share", "did you mean 'shared'?"),
        ("mab-async:shared=1", "unknown option 'shared=1'"),
        ("mab-async:c", "'c' must give a number >= 0"),
        ("mab-async:c=-1", "'c=-1' must give a number >= 0"),
        ("mab-async:c=nan", "'c=nan' must give a number >= 0"),
        ("mab-async:c=inf", "'c=inf' must give a number >= 0"),
        ("mab-async:c=1,,shared", "unknown option ''"),
    ],
)
def test_unknown_policies_and_options_are_refused_with_a_hint(text: str, hint: str) -> None:
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


def test_only_a_policy_that_prefetches_wants_more_than_its_first_choice_in_memory() -> None:
    """Prediction-only would prefetch like MemSpec, or MemSpec would not."""
    assert parse_policy("memspec", DRAFTS).depth is None
    assert {parse_policy(name, DRAFTS).depth for name in ("prediction-only", "mab-async", "mab-sync")} == {1}
