"""What logits on a device are asked for: rules that go about distributions get them on the host, in one piece."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from memspec_actors.errors import DeviceFull
from memspec_actors.models.runner import Cache
from memspec_actors.models.session import DecodeSession
from memspec_actors.models.testing import ToyCache, ToyRunner
from memspec_actors.protocols.requests import SamplingParams
from tests.models.test_session import bound, plain_greedy, session_of

ALLOWED = {Tensor.cpu, Tensor.__getitem__, Tensor.shape.__get__, Tensor.device.__get__}  # type: ignore[attr-defined]


class Elsewhere(Tensor):
    """Logits that can be cut and brought to the host, and nothing else."""

    num_copies = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func in ALLOWED, f"{func} of logits on a device"
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            if func is Tensor.cpu:
                cls.num_copies += 1
                return result.as_subclass(Tensor)
            return result.as_subclass(cls) if isinstance(result, Tensor) else result


class FarRunner(ToyRunner):
    """A toy model whose logits are elsewhere."""

    def forward(self, ids: Tensor | Sequence[int], cache: Cache, logits_to_keep: int = 0) -> Tensor:
        return super().forward(ids, cache, logits_to_keep).as_subclass(Elsewhere)


def decode(runner: type[ToyRunner], sampling: SamplingParams, accept: str) -> DecodeSession:
    session = session_of(runner(), sampling=sampling, accept=accept, k=4)
    draft, outcome = bound("a", runner(error_rate=0.3)), session.prefill()
    while outcome.commit.finish_reason is None:
        outcome = session.step(draft)
    return session


@pytest.mark.parametrize(
    ("sampling", "accept"),
    [
        (SamplingParams(temperature=0.8), "match"),
        (SamplingParams(temperature=0.8, top_p=0.9), "rejection"),
        (SamplingParams(temperature=0.8, logprobs=3), "match"),
        (SamplingParams(repetition_penalty=1.3), "exact"),
        (SamplingParams(), "bayes"),
        (SamplingParams(), "typical"),
    ],
    ids=str,
)
def test_rules_see_logits_on_the_host(sampling: SamplingParams, accept: str) -> None:
    """Their random numbers and tables are there: mixing the two fails, and on some GPUs float64 does."""
    near, far = decode(ToyRunner, sampling, accept), decode(FarRunner, sampling, accept)
    assert far.tokens == near.tokens
    assert far.logprobs == near.logprobs


def test_an_iteration_fetches_the_targets_logits_once() -> None:
    session = session_of(FarRunner(), sampling=SamplingParams(temperature=0.8), accept="match", k=4)
    session.prefill()
    Elsewhere.num_copies = 0
    outcome = session.step(bound("a", FarRunner()))
    assert Elsewhere.num_copies == outcome.drafted + 1 == 5


class FullCache(ToyCache):
    """A cache that has no room for more than some tokens."""

    room = 12

    def reserve(self, num: int) -> None:
        if self.length + num > self.room:
            raise DeviceFull("no room")


class FullRunner(ToyRunner):
    """A draft on a device that is full; ``num_tokens`` still fit."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__()
        self.num_tokens = num_tokens

    def new_cache(self, max_tokens: int) -> FullCache:
        if not self.num_tokens:
            raise DeviceFull("no room")
        cache = FullCache()
        cache.room = self.num_tokens
        return cache

    def forward(self, ids: Tensor | Sequence[int], cache: Cache, logits_to_keep: int = 0) -> Tensor:
        assert isinstance(cache, FullCache)
        cache.reserve(len(ids))
        return super().forward(ids, cache, logits_to_keep)


@pytest.mark.parametrize("room", [0, 3, 12])
def test_a_draft_without_memory_sits_out(room: int) -> None:
    """The request would fail for a draft, of which it needs none."""
    session, draft = session_of(ToyRunner(), k=4), bound("a", FullRunner(room))
    outcome, drafted = session.prefill(), 0
    if room < 5:
        assert session.warm(draft) == 0
    while outcome.commit.finish_reason is None:
        outcome = session.step(draft)
        drafted += outcome.drafted
        assert session._target_cache.length == len(session.tokens) - 1
    assert list(session.generated) == plain_greedy(ToyRunner(), 60)
    assert (drafted > 0) == (room > 9)


def test_a_target_without_memory_ends_the_request() -> None:
    session = session_of(FullRunner(20), k=4)
    session.prefill()
    with pytest.raises(DeviceFull):
        for _ in range(20):
            session.step(None)
