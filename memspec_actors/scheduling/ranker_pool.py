"""The rankers of the requests at hand, and what each of them has been told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from memspec_actors.protocols.messages import SchedulingPoint
from memspec_actors.protocols.traces import Plan
from memspec_actors.scheduling.bandits import Exp3Ranker, UcbRanker
from memspec_actors.scheduling.hedge import HedgeRanker
from memspec_actors.scheduling.load_prices import LoadPrices
from memspec_actors.scheduling.overrule import OverrulingRanker
from memspec_actors.scheduling.plans import PlanRanker
from memspec_actors.scheduling.policy import Policy
from memspec_actors.scheduling.rankers import Ranker, Ranking, RankingContext, StaticRanker
from memspec_actors.scheduling.search import Discoveries

__all__ = ["RankerMaker", "RankerPool"]


@dataclass(frozen=True, kw_only=True)
class RankerMaker:
    """Make rankers that have learned nothing of any text yet.

    ``predictor`` gives the trained one, which all requests may use. ``capacity`` (K) and ``fits`` say which of the
    ``drafts`` can be in memory together. What loads cost, and which drafts the predictor misses, is learned over all
    requests.
    """

    drafts: Sequence[str]
    predictor: Callable[[], Ranker]
    capacity: int
    fits: Callable[[Sequence[str]], bool]
    load_prices: LoadPrices = field(default_factory=LoadPrices)
    discoveries: Discoveries = field(default_factory=Discoveries)

    def make(self, policy: Policy, *, seed: int = 0, plan: Plan | None = None) -> Ranker:
        """Return a ranker for a policy that uses drafts; its random choices are a function of ``seed``."""
        match policy.ranked_by:
            case "one draft":
                assert policy.static_draft is not None
                return StaticRanker(policy.static_draft)
            case "predictor":
                return self.predictor()
            case "overruled predictor":
                return OverrulingRanker(
                    self.drafts, self.predictor(), self.capacity, self.fits, self.load_prices, self.discoveries
                )
            case "ucb":
                return UcbRanker(self.drafts, policy.exploration)
            case "exp3":
                return Exp3Ranker(self.drafts, policy.mixing, seed)
            case "hedge":
                return HedgeRanker(self.drafts, policy.discount)
            case "plan":
                assert plan is not None, f"policy {policy.name!r} was let through without a plan"
                return PlanRanker(plan)
            case "nothing":
                raise AssertionError(f"policy {policy.name!r} uses no drafts, so there is nothing to rank")


@dataclass(slots=True)
class _Request:
    request_id: str
    ranker: Ranker
    observed: int = 0


class RankerPool:
    """Give every request a ranker of its own, or that of its policy if the policy shares it.

    Requests are decoded one after the other: a request's own ranker is let go when the next request comes.
    """

    def __init__(
        self, policy_of: Callable[[str], Policy], new_ranker: Callable[[Policy, SchedulingPoint], Ranker]
    ) -> None:
        self.policy_of = policy_of
        self._new_ranker = new_ranker
        self._shared: dict[str, Ranker] = {}
        self._request: _Request | None = None

    def rank(self, point: SchedulingPoint) -> tuple[Ranking, int]:
        """Tell the request's ranker what it has not been told yet, let it rank, and count what it has been told."""
        request = self._request_of(point)
        for feedback in point.feedback:
            if feedback.iteration >= request.observed:
                request.ranker.observe(feedback)
                request.observed = feedback.iteration + 1
        context = RankingContext(
            prompt_ids=point.prompt_ids,
            recent_ids=point.recent_ids,
            interval=point.interval,
            num_generated=point.num_generated,
            tokens_left=point.tokens_left,
            resident=point.resident,
            unavailable=point.unavailable,
            active=point.active,
        )
        return request.ranker.rank(context), request.observed

    def _request_of(self, point: SchedulingPoint) -> _Request:
        if self._request is None or self._request.request_id != point.request_id:
            self._request = _Request(point.request_id, self._ranker_of(point))
        return self._request

    def _ranker_of(self, point: SchedulingPoint) -> Ranker:
        policy = self.policy_of(point.policy)
        if not policy.shared:
            return self._new_ranker(policy, point)
        if policy.name not in self._shared:
            self._shared[policy.name] = self._new_ranker(policy, point)
        return self._shared[policy.name]
