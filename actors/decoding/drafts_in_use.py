"""The Decoder's word in the residency protocol: what it says of the drafts that it uses, and how it warms others."""

from collections.abc import Iterable, Sequence

from memspec_actors.actors.decoding.run import Run
from memspec_actors.actors.decoding.setup import DecoderSetup
from memspec_actors.models.session import DecodeSession
from memspec_actors.protocols.events import DraftActivatedEvent, ResidencyAcknowledged
from memspec_actors.protocols.messages import (
    CacheManagerMessage,
    DecoderMessage,
    DraftActivated,
    DraftWarmed,
    NowServing,
    ResidencyAck,
    ResidencyAnnounced,
    ResidentDraft,
)
from memspec_actors.runtime import Actor, ActorRef
from memspec_actors.scheduling.leases import Leases

__all__ = ["DraftsInUse"]


class DraftsInUse:
    """Keep the CacheManager informed of what ``leases`` decide, and bring drafts up to date beside decoding.

    Records carry the name of ``actor``, and what goes on beside decoding is a task of its.
    """

    def __init__(
        self, actor: Actor[DecoderMessage], setup: DecoderSetup, cache_manager: ActorRef[CacheManagerMessage]
    ) -> None:
        self.leases = Leases()
        self._actor = actor
        self._setup = setup
        self._cache_manager = cache_manager
        self._run: Run | None = None

    def serve(self, run: Run | None) -> None:
        """Use drafts for this request from now on; None: for no request.

        To be called again at every scheduling point: a CacheManager that died of hearing who is served would take no
        further ranking.
        """
        self._run = run
        self._cache_manager.tell(NowServing(request_id=run.id if run else None))

    def hear(self, announced: ResidencyAnnounced) -> None:
        """Take an announcement, and acknowledge it at once unless it leaves out a draft that is used."""
        self.leases.hear(announced)
        self._let_go()

    def adopt(self) -> None:
        """Go by the newest announcement, if that can be, and drop what was kept for drafts that it leaves out."""
        revoked = self.leases.adopt()
        if revoked and self._run is not None:
            self._run.session.keep({draft for draft in self._setup.runners if draft not in revoked})

    def settle(self, order: Sequence[str]) -> None:
        """Go on with the best-ranked draft of the adopted announcement, and acknowledge that."""
        previous = self.leases.active
        if self.leases.activate(order):
            self._tell_activation(previous)
        if self.leases.acknowledge():
            self.acknowledge()

    def acknowledge(self) -> None:
        """Tell which epoch is gone by: none before the first announcement."""
        epoch, active = self.leases.acknowledged, self.leases.active
        self._cache_manager.tell(ResidencyAck(epoch=epoch, active=active))
        self._setup.log.write(ResidencyAcknowledged(actor=self._actor.name, epoch=epoch, active=active))

    def warm(self, draft: ResidentDraft) -> None:
        """Bring a draft's cache up to the committed tokens before anybody may pick it, and answer, whatever happens."""
        self._actor.tasks.start_soon(self._warm, draft)

    def let_read_along(self, drafts: Iterable[ResidentDraft]) -> None:
        """Bring resident drafts that are not at work up to date, beside decoding: a switch then has less to do."""
        assert self._run is not None, "there is no text to read along"
        for draft in drafts:
            if self.leases.start_reading(draft):
                self._actor.tasks.start_soon(self._read_along, draft, self._run.session)

    async def _warm(self, draft: ResidentDraft) -> None:
        bound = self._setup.runners.get(draft)
        try:
            if self._run is not None and bound is not None:
                await self._setup.warm_workers.run(self._run.session.warm, bound)
        finally:  # by now nobody reads the draft, even if the actor dies of it: its memory may be reused
            self._cache_manager.tell(DraftWarmed(draft=draft))

    async def _read_along(self, draft: ResidentDraft, session: DecodeSession) -> None:
        await self._setup.warm_workers.run(session.warm, self._setup.runners[draft])
        self.leases.stop_reading(draft)
        self._let_go()

    def _let_go(self) -> None:
        """Go by the newest announcement unless it leaves out the draft at work, and acknowledge that.

        Else a load into the room of a draft that nobody uses would wait for the end of an iteration, or of a prompt.
        """
        if self.leases.spares_active():
            self.adopt()
            if self.leases.acknowledge():
                self.acknowledge()

    def _tell_activation(self, previous: ResidentDraft | None) -> None:
        run, draft = self._run, self.leases.active
        self._cache_manager.tell(DraftActivated(draft=draft))
        self._setup.log.write(
            DraftActivatedEvent(
                actor=self._actor.name,
                request_id=run.id if run else None,
                epoch=self.leases.current.epoch,
                draft=draft,
                previous=previous,
                iteration=run.iteration if run else 0,
            )
        )
