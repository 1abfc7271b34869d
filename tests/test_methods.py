"""Names of whole systems: if wrong, a method runs other rules than its name says."""

import pytest
from msgspec.structs import replace

from memspec_actors.config import Config, SpeculationConfig, TargetConfig
from memspec_actors.errors import ConfigError
from memspec_actors.methods import METHODS, Choice, choose, decoding_alone, stopping_by
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.stop import stop_rule


@pytest.mark.parametrize(
    ("method", "stop", "accept"),
    [
        ("vanilla", "fixed:5", "rejection"),
        ("assistedgen", "confidence", "rejection"),
        ("gen-only", "entropy", "rejection"),
        ("verify-only", "fixed:5", "bayes"),
        ("adasd", "entropy", "bayes"),
        ("adasd+assistedgen", "confidence", "bayes"),
    ],
)
def test_the_papers_systems_are_pairs_of_rules(method: str, stop: str, accept: str) -> None:
    assert choose(Config(), method=method) == Choice("memspec", stop, accept, None)
    assert choose(Config(speculation=SpeculationConfig(method=method))) == Choice("memspec", stop, accept, None)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_names_rules_that_exist(method: str) -> None:
    stop_rule(METHODS[method].stop)
    for greedy in (True, False):
        acceptance_rule(METHODS[method].accept, greedy=greedy)


def test_a_request_comes_before_the_configuration_and_a_rule_before_the_method() -> None:
    config = Config(speculation=SpeculationConfig(stop="fixed:3"))
    assert choose(config) == Choice("memspec", "fixed:3", "auto", None)
    assert choose(config, accept="match") == Choice("memspec", "fixed:3", "match", None)
    assert choose(config, method="adasd", stop="fixed:9") == Choice("memspec", "fixed:9", "bayes", None)
    assert choose(config, method="adasd", policy="static:law") == Choice("static:law", "entropy", "bayes", None)


def test_another_stop_rule_leaves_what_is_accepted() -> None:
    """A comparison under a method's own acceptance would turn lossless where only the draft length was to change."""
    for speculation in (SpeculationConfig(method="adasd"), SpeculationConfig(stop="entropy", accept="bayes")):
        changed = stopping_by(Config(speculation=speculation), "fixed:5")
        assert changed == Config(speculation=SpeculationConfig(stop="fixed:5", accept="bayes"))


def test_target_drafts_nothing_and_refuses_a_policy_that_does() -> None:
    assert choose(Config(), method="target").policy == "target-only"
    with pytest.raises(ConfigError, match="method 'target' drafts nothing; leave out policy 'memspec'"):
        choose(Config(), method="target", policy="memspec")


def test_a_draft_alone_takes_the_targets_place() -> None:
    config = Config(speculation=SpeculationConfig(method="draft:law"))
    assert decoding_alone(config) == replace(config, target=TargetConfig(model="zoo:law"), drafts=())
    assert choose(decoding_alone(config)).draft_alone == "law"
    assert decoding_alone(Config()) == Config()


def test_a_draft_alone_is_for_a_whole_engine() -> None:
    """The text would be called the draft's and be the target's, or the other way round."""
    alone = Config(speculation=SpeculationConfig(method="draft:law"))
    for config, method in ((Config(), "draft:law"), (alone, "draft:math"), (alone, "adasd"), (alone, "target")):
        with pytest.raises(ConfigError, match="open another engine"):
            choose(config, method=method)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"method is 'adsd'; known methods: vanilla, .*did you mean 'adasd'"):
        choose(Config(), method="adsd")
    with pytest.raises(ConfigError, match=r"no draft is named 'latin'; drafts: general, code"):
        decoding_alone(Config(speculation=SpeculationConfig(method="draft:latin")))


def test_a_configuration_gives_a_method_or_rules() -> None:
    """One of the two would be ignored."""
    with pytest.raises(ConfigError, match=r"method is 'adasd' and stop is given too"):
        SpeculationConfig(method="adasd", stop="fixed:3")
