"""The Predictor: rank the drafts at every scheduling point, beside decoding."""

from collections.abc import Callable
from time import perf_counter_ns

from memspec_actors.protocols.events import PredictionMade
from memspec_actors.protocols.messages import (
    CacheManagerMessage,
    DecoderMessage,
    DraftRanking,
    PredictorMessage,
)
from memspec_actors.runtime import Actor, ActorRef, Workers
from memspec_actors.scheduling.rankers import Ranker, Ranking, RankingContext
from memspec_actors.telemetry.event_log import EventLog

__all__ = ["Predictor"]


class Predictor(Actor[PredictorMessage]):
    """Own the rankers, one per policy; ranking runs in a worker thread so that the event loop stays free."""

    def __init__(
        self,
        *,
        ranker_of: Callable[[str], Ranker],
        decoder: ActorRef[DecoderMessage],
        cache_manager: ActorRef[CacheManagerMessage],
        workers: Workers,
        log: EventLog,
    ) -> None:
        self._ranker_of = ranker_of
        self._decoder = decoder
        self._cache_manager = cache_manager
        self._workers = workers
        self._log = log

    async def receive(self, point: PredictorMessage) -> None:
        context = RankingContext(prompt_ids=point.prompt_ids, recent_ids=point.recent_ids, interval=point.interval)
        ranking, predict_us = await self._workers.run(_timed, self._ranker_of(point.policy), context)
        message = DraftRanking(
            request_id=point.request_id,
            interval=point.interval,
            order=ranking.order,
            scores=ranking.scores,
            predict_us=predict_us,
        )
        self._decoder.tell(message)
        self._cache_manager.tell(message)
        self._log.write(
            PredictionMade(
                actor=self.name,
                request_id=point.request_id,
                interval=point.interval,
                policy=point.policy,
                order=ranking.order,
                scores=ranking.scores,
                predict_us=predict_us,
                context_tokens=len(point.prompt_ids) + len(point.recent_ids),
            )
        )


def _timed(ranker: Ranker, context: RankingContext) -> tuple[Ranking, float]:
    started = perf_counter_ns()
    ranking = ranker.rank(context)
    return ranking, (perf_counter_ns() - started) / 1e3
