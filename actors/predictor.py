"""The Predictor: rank the drafts at every scheduling point, beside decoding."""

from time import perf_counter_ns, thread_time_ns

from memspec_actors.protocols.events import PredictionMade
from memspec_actors.protocols.messages import (
    CacheManagerMessage,
    DecoderMessage,
    DraftRanking,
    PredictorMessage,
)
from memspec_actors.runtime import Actor, ActorRef, Workers
from memspec_actors.scheduling.ranker_pool import RankerPool
from memspec_actors.scheduling.rankers import Ranking
from memspec_actors.telemetry.event_log import EventLog

__all__ = ["Predictor"]


class Predictor(Actor[PredictorMessage]):
    """Own the rankers; ranking runs in a worker thread so that the event loop stays free.

    ``pool`` outlives a restart of the actor: what was learned stays learned.
    """

    def __init__(
        self,
        *,
        pool: RankerPool,
        decoder: ActorRef[DecoderMessage],
        cache_manager: ActorRef[CacheManagerMessage],
        workers: Workers,
        log: EventLog,
    ) -> None:
        self._pool = pool
        self._decoder = decoder
        self._cache_manager = cache_manager
        self._workers = workers
        self._log = log
        self._said: tuple[str, int, tuple[str, ...], int | None] | None = None
        self._untold_us = 0.0  # processor time of rankings since the last that was news

    async def receive(self, message: PredictorMessage) -> None:
        ranking, observed, predict_us, cpu_us = await self._workers.run(_timed, self._pool, message)
        self._untold_us += cpu_us
        depth = self._pool.policy_of(message.policy).depth if ranking.depth is None else ranking.depth
        said = message.request_id, message.interval, ranking.order, depth
        if said == self._said and not ranking.to_hear:
            return  # amid an interval only a change is news, or a question
        self._said = said
        answer = DraftRanking(
            request_id=message.request_id,
            interval=message.interval,
            order=ranking.order,
            scores=ranking.scores,
            depth=depth,
            to_hear=ranking.to_hear,
            observed=observed,
            cpu_us=self._untold_us,
        )
        self._untold_us = 0.0
        self._decoder.tell(answer)
        self._cache_manager.tell(answer)
        self._record(message, answer, predict_us)

    def _record(self, point: PredictorMessage, answer: DraftRanking, predict_us: float) -> None:
        self._log.write(
            PredictionMade(
                actor=self.name,
                request_id=answer.request_id,
                interval=answer.interval,
                policy=point.policy,
                order=answer.order,
                scores=answer.scores,
                predict_us=predict_us,
                cpu_us=answer.cpu_us,
                context_tokens=len(point.prompt_ids) + len(point.recent_ids),
            )
        )


def _timed(pool: RankerPool, point: PredictorMessage) -> tuple[Ranking, int, float, float]:
    """Rank, and tell how long it took in all and in processor time, both in microseconds."""
    started, computed = perf_counter_ns(), thread_time_ns()
    ranking, observed = pool.rank(point)
    cpu_us = (thread_time_ns() - computed) / 1e3
    return ranking, observed, (perf_counter_ns() - started) / 1e3, cpu_us
