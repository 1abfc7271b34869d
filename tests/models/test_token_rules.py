"""What a draft's tokens are drawn with is made for tokens that are drafted, whatever the size of the vocabulary."""

import tracemalloc
from collections.abc import Sequence

import pytest
from torch import Tensor

from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.runner import Cache
from memspec_actors.models.testing import ToyRunner
from memspec_actors.models.token_rules import TokenRules
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.speculation.accept import Match
from memspec_actors.speculation.criterion import StopCriterion
from memspec_actors.speculation.proposing import Drawing
from memspec_actors.speculation.stop import stop_rule


class Unsure(ToyRunner):
    """A draft that is ``confidence`` sure of its first ``num_sure`` tokens, and not at all of those after them."""

    def __init__(self, num_sure: int, confidence: float = 1.0) -> None:
        super().__init__()
        self.num_sure = num_sure
        self.confidence = confidence
        self.num_calls = 0

    def draft_until(
        self, ids: Sequence[int], cache: Cache, num: int, num_ids: int, stop: StopCriterion, drawing: Drawing
    ) -> tuple[list[int], list[float], list[Tensor]]:
        assert len(drawing.arrivals) == num
        self.num_calls += 1
        signals = [self.confidence] * min(num, self.num_sure)
        self.num_sure -= len(signals)
        if len(signals) < num:
            signals.append(0.0)
        return [1] * len(signals), signals, []


def drafted_by(runner: Unsure, num_ids: int) -> int:
    """Sample up to 40 tokens under the default stop rule; return how many they are."""
    request = GenerationRequest(
        request_id="r", prompt_ids=(1,), max_new_tokens=60, sampling=SamplingParams(temperature=1.0), seed=0,
        policy="static:a", stop_rule="gain", accept="match", lossless=True,
    )  # fmt: skip
    rules = TokenRules(request, num_ids, Match(), stop_rule("gain"), None)
    bound = BoundDraft(ResidentDraft("a", 1), runner, num_ids)
    proposal, signals = rules.draft(bound, runner.new_cache(9), (1,), 40)
    assert len(proposal.ids) == len(signals)
    return len(signals)


@pytest.mark.parametrize("num_sure", [0, 2, 39, 50])
def test_noise_is_drawn_for_what_is_drafted(num_sure: int) -> None:
    """The first token of a sampled text would wait for the noise of forty, and 50 MB would be in no memory plan."""
    num_ids = 150_000
    tracemalloc.start()
    num_drafted = drafted_by(Unsure(num_sure), num_ids)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert num_drafted == min(num_sure + 1, 40)
    assert peak < 8 * num_ids * (min(num_drafted, 8) + 0.5)


def test_a_small_vocabulary_is_drafted_in_one_call() -> None:
    """Going from call to call would slow down models whose tokens take no longer than that."""
    runner = Unsure(39)
    assert drafted_by(runner, 3072) == 40 and runner.num_calls == 1


def test_doubts_add_up_from_call_to_call() -> None:
    """A draft in several calls would go on where one in a single call stops: 0.9 to the seventh is less than half."""
    assert drafted_by(Unsure(50, confidence=0.9), 150_000) == 7
