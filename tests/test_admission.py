"""If these fail, a caller is not told what to put right, or a request is decoded otherwise than it was asked for."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from memspec_actors.admission import Admission
from memspec_actors.config import Config, DraftConfig, PredictorConfig, ScheduleConfig
from memspec_actors.errors import ConfigError, InvalidRequest
from memspec_actors.loadout import Loadout
from memspec_actors.prompts import PromptEncoder
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.scheduling.rankers import Ranker, StaticRanker

CONFIG = Config(drafts=(DraftConfig(name="law"),), schedule=ScheduleConfig(policy="static:law"))
Admit = Callable[..., GenerationRequest]


@pytest.fixture(scope="module")
def loadout() -> Loadout:
    return Loadout.open(CONFIG)


def admission(loadout: Loadout, config: Config = CONFIG, predictor: Callable[[], Ranker] | None = None) -> Admission:
    prompts = PromptEncoder(loadout.tokenizer, loadout.num_ids)
    return Admission(config, loadout, prompts, predictor or partial(StaticRanker, "law"))


@pytest.fixture
def admit(loadout: Loadout) -> Admit:
    return partial(admission(loadout).admit, max_new_tokens=8, sampling=None, raw=False)


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ("caf\udce9", {}, "character 3"),  # what Python makes of an argument that is no UTF-8
        ("caf\udce9", {"raw": True}, "character 3"),
        (b"hello", {}, "bytes"),
        (5, {}, "int"),
        (["hello"], {}, "chat messages"),
        ("hello", {"max_new_tokens": 3.5}, "max_new_tokens"),
        ("hello", {"max_new_tokens": "3"}, "max_new_tokens"),
        ("hello", {"sampling": {"temperature": 1.0}}, "sampling is a dict"),
        ("hello", {"policy": 5}, "policy is 5"),
        ("hello", {"stop": ["fixed:5"]}, r"stop is \['fixed:5'\]"),
    ],
)
def test_input_of_a_wrong_type_is_refused(admit: Admit, prompt: Any, options: dict[str, Any], message: str) -> None:
    """Let through, it would crash the Decoder in the middle of everybody's decoding, or never end."""
    with pytest.raises(InvalidRequest, match=message):
        admit(prompt, **options)


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ((), {}, "empty"),
        ([5] * 1024, {}, "too long for the target's context by 1 tokens; shorten it"),
        ([5] * 5000, {}, "too long for the target's context by 3977 tokens; shorten it"),
        ([10**9], {}, "ids outside"),
        ("hello", {"max_new_tokens": 0}, "max_new_tokens"),
        ("hello", {"sampling": SamplingParams(temperature=1.0), "accept": "exact"}, "exact"),
        ("hello", {"sampling": SamplingParams(logit_bias={10**6: 1.0})}, "token id 1000000; ids are 0 to"),
    ],
)
def test_what_cannot_be_decoded_is_refused(admit: Admit, prompt: Any, options: dict[str, Any], message: str) -> None:
    """It would be found in the middle of decoding, when a stream has begun and others wait."""
    with pytest.raises(InvalidRequest, match=message):
        admit(prompt, **options)


def test_a_request_goes_by_what_it_says_and_else_by_the_configuration(admit: Admit) -> None:
    own = admit("hello", policy="target-only", method="adasd", sampling=SamplingParams(temperature=1.0, seed=3))
    assert (own.policy, own.stop_rule, own.accept, own.seed) == ("target-only", "entropy", "bayes", 3)
    assert (own.lossless, own.thresholds) == (False, "sync")
    configured = admit("hello", sampling=SamplingParams())
    assert (configured.policy, configured.stop_rule, configured.accept) == ("static:law", "gain", "exact")
    assert (configured.lossless, configured.thresholds) == (True, "async")
    with pytest.raises(ConfigError, match="static:law"):
        admit("hello", policy="static:lwa")


@pytest.mark.parametrize("what", ["policy", "stop", "accept", "method"])
def test_an_empty_name_names_nothing(admit: Admit, what: str) -> None:
    """What a variable of a shell was to hold would silently be the configuration's."""
    with pytest.raises(ConfigError, match=f"{what}.* ''"):
        admit("hello", **{what: ""})


def test_requests_without_a_seed_differ(admit: Admit) -> None:
    """Sampled texts of one prompt would all be the same, and cancelling one request would end another."""
    requests = [admit("hello") for _ in range(5)]
    assert len({request.seed for request in requests}) == len({request.request_id for request in requests}) == 5


def test_a_lossy_text_is_warned_of_once(admit: Admit, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody would know that the text is not the target's; or a server's log would be full of it."""
    with caplog.at_level(logging.WARNING):
        for method in ("gain-only", "adasd", "adasd", "typical"):
            admit("hello", method=method)
    assert [record.args for record in caplog.records] == [
        ("accept 'bayes' is lossy: the text may differ from the target's own",),
        ("accept 'typical' is lossy: the text may differ from the target's own",),
    ]


def test_a_predictor_is_opened_for_the_first_policy_that_needs_one(loadout: Loadout) -> None:
    """Every start would pay for it; or the first ranking would find that there is none."""
    opened: list[None] = []

    def predictor() -> Ranker:
        opened.append(None)
        return StaticRanker("law")

    admit = partial(admission(loadout, CONFIG, predictor).admit, max_new_tokens=8, sampling=None, raw=False)
    admit("hello")
    assert not opened
    admit("hello", policy="memspec")
    assert opened


def test_a_policy_that_needs_a_predictor_is_refused_without_one(loadout: Loadout) -> None:
    """Decoding would go on without drafts, and nobody would know why."""
    alone = Config(drafts=CONFIG.drafts, predictor=PredictorConfig(path="none"))
    with pytest.raises(ConfigError, match="policy 'memspec' needs a predictor"):
        admission(loadout, alone)
