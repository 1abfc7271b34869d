"""Every message between actors, by who receives it: each actor's end in the union of all that it receives.

Messages are immutable, hold no tensors, and name drafts by (name, load generation): a generation is a number that grows
with every load, so a message about an earlier load of the same draft can never be mistaken for the present one.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.protocols.results import GenerationResult, TextChunk
from memspec_actors.protocols.traces import Plan

__all__ = [
    "BackoffPassed",
    "CacheManagerMessage",
    "Cancel",
    "CancelLoad",
    "DecoderMessage",
    "DraftActivated",
    "DraftRanking",
    "DraftWarmed",
    "DraftWish",
    "Generate",
    "GetResidency",
    "GetStatistics",
    "IterationReport",
    "LoadCancelled",
    "LoadDraft",
    "LoadFailed",
    "LoadFinished",
    "LoadProgress",
    "LoaderMessage",
    "Message",
    "NowServing",
    "Odds",
    "OutputSink",
    "Placement",
    "PredictorMessage",
    "ReleaseDraft",
    "ResidencyAck",
    "ResidencyAnnounced",
    "ResidentDraft",
    "SchedulingPoint",
    "SequenceStarted",
    "SteerDraft",
    "ThresholdsPublished",
    "VerifierStatsMessage",
    "WaitedFor",
    "WarmDraft",
]


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Base of all messages: frozen, tagged with the class name, keyword only."""


# --- what messages carry ----------------------------------------------------------------------------------------------

WaitedFor = Literal["prediction", "load", "thresholds"]


class OutputSink(Protocol):
    """Take what the Decoder produces for one request: chunks, then exactly one result or error."""

    def chunk(self, chunk: TextChunk) -> None: ...

    def finish(self, result: GenerationResult) -> None: ...

    def fail(self, error: Exception) -> None: ...


class Odds(Protocol):
    """Tell how probable it is that a token is accepted; immutable."""

    def probability(self, distance: float, newly_accepted: Sequence[float] = ()) -> float | None:
        """Return it for a distance in [0, 1], distances accepted since counted in; None while it is undefined."""
        ...

    @property
    def num_accepted(self) -> int:
        """Number of distances of accepted tokens that this rests on."""
        ...

    @property
    def num_rejected(self) -> int: ...


class ResidentDraft(msgspec.Struct, frozen=True):
    """Name one load of one draft."""

    name: str
    generation: int


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Say where one artefact of a draft lies in the arena; ``present`` ones are there already and shared."""

    artefact: str
    offset: int
    nbytes: int
    present: bool = False


# --- to the Decoder ---------------------------------------------------------------------------------------------------


class Generate(Message, frozen=True):
    """Generate text for one request; its output goes to ``sink``. ``submitted_at`` is the event loop's time."""

    request: GenerationRequest
    sink: OutputSink
    submitted_at: float


class Cancel(Message, frozen=True):
    """Stop a request, running or queued; unknown ids are ignored."""

    request_id: str


class DraftRanking(Message, frozen=True):
    """Rank drafts, best first, with one score each; latest wins. Goes to the Decoder and the CacheManager.

    Only the first ``depth`` are to be in memory (None: as many as fit). ``observed`` is the number of the request's
    iterations that the ranking takes into account, ``cpu_us`` the processor time of all since the last that was
    told. Drafts ``to_hear`` are to read along, if they are in memory.
    """

    request_id: str
    interval: int
    order: tuple[str, ...]
    scores: tuple[float, ...]
    depth: int | None
    observed: int
    cpu_us: float
    to_hear: tuple[str, ...] = ()


class ResidencyAnnounced(Message, frozen=True):
    """Announce the drafts that may be used from now on; latest wins, epochs grow by one."""

    epoch: int
    resident: tuple[ResidentDraft, ...]
    unavailable: tuple[str, ...]  # drafts that will not come for now: their loads fail, or people asked otherwise


class ThresholdsPublished(Message, frozen=True):
    """Tell what the tokens verified up to ``iteration`` (-1: none) of a request have taught; latest wins.

    ``stop_threshold`` and ``calibration`` are for its stop rule, ``odds`` for its acceptance rule; None: no change.
    """

    request_id: str
    iteration: int
    stop_threshold: float | None
    calibration: tuple[float, ...]
    odds: Odds | None


class WarmDraft(Message, frozen=True):
    """Warm the key/value cache of a draft that is loaded but not announced yet.

    Answered with exactly one DraftWarmed, if need be by a Decoder that dies meanwhile, or the one that comes after it.
    """

    draft: ResidentDraft


DecoderMessage = Generate | Cancel | DraftRanking | ResidencyAnnounced | ThresholdsPublished | WarmDraft


# --- to the Predictor -------------------------------------------------------------------------------------------------


class SchedulingPoint(Message, frozen=True):
    """Give the context of a scheduling point; latest wins.

    ``recent_ids`` are the last T of ``num_generated`` tokens, at most ``tokens_left`` may follow. ``unavailable``
    drafts will not come for now. For a policy that learns, ``feedback`` holds every iteration that no ranking has taken
    into account yet: so a point that is superseded, or lost in a crash, loses none. ``seed`` and ``plan`` are the
    request's.
    """

    request_id: str
    interval: int
    policy: str
    seed: int
    plan: Plan | None
    prompt_ids: tuple[int, ...]
    recent_ids: tuple[int, ...]
    num_generated: int
    tokens_left: int
    resident: tuple[str, ...]
    unavailable: tuple[str, ...]
    active: str | None
    feedback: tuple[Feedback, ...]


PredictorMessage = SchedulingPoint


# --- to the CacheManager ----------------------------------------------------------------------------------------------


class ResidencyAck(Message, frozen=True):
    """Acknowledge an epoch: no draft outside it is in use any more; ``active`` is the one in use.

    Epoch 0 comes from a Decoder that has just (re)started: it uses nothing and has read no announcement yet.
    """

    epoch: int
    active: ResidentDraft | None


class NowServing(Message, frozen=True):
    """Tell whose text is decoded from now on (None: nobody's); rankings of any other request are void.

    It is said again at every scheduling point.
    """

    request_id: str | None


class DraftActivated(Message, frozen=True):
    """Tell that decoding goes on with another draft (or, with None, with the target alone)."""

    draft: ResidentDraft | None


class DraftWarmed(Message, frozen=True):
    """Answer WarmDraft: nobody reads the draft any more. Its cache holds the committed tokens, if there are any."""

    draft: ResidentDraft


class LoadFinished(Message, frozen=True):
    """Every artefact of the draft lies in its place and a runner is bound to it."""

    draft: ResidentDraft
    nbytes: int
    wall_us: float
    emulated: bool


class LoadFailed(Message, frozen=True):
    """The load ended without a usable draft; ``error`` names the file."""

    draft: ResidentDraft
    error: str


class LoadCancelled(Message, frozen=True):
    """The load was cancelled and touches its memory no more."""

    draft: ResidentDraft


class LoadProgress(Message, frozen=True):
    """Tell how much of a load is done; latest wins."""

    draft: ResidentDraft
    done_bytes: int
    total_bytes: int


class BackoffPassed(Message, frozen=True):
    """Tell the CacheManager that the back-off of a quarantined draft has passed (its own timer sends it)."""


DraftWish = Literal["load", "unload", "pin", "unpin"]


class SteerDraft(Message, frozen=True):
    """Ask for something to be done with a draft; answered with a ResidencySnapshot, or the error why not.

    An unload is answered when the draft's memory is free, or the draft is wanted again.
    """

    wish: DraftWish
    draft: str


class GetResidency(Message, frozen=True):
    """Ask for a ResidencySnapshot."""


CacheManagerMessage = (
    DraftRanking
    | ResidencyAck
    | NowServing
    | DraftActivated
    | DraftWarmed
    | LoadFinished
    | LoadFailed
    | LoadCancelled
    | LoadProgress
    | BackoffPassed
    | SteerDraft
    | GetResidency
)


# --- to the Loader ----------------------------------------------------------------------------------------------------


class LoadDraft(Message, frozen=True):
    """Read the draft's absent artefacts into their places; ends in exactly one of finished, failed, cancelled."""

    draft: ResidentDraft
    placements: tuple[Placement, ...]


class CancelLoad(Message, frozen=True):
    """Give up a load at the next chunk; one that already ended is left as it is."""

    draft: ResidentDraft


class ReleaseDraft(Message, frozen=True):
    """Drop the runner bound to a draft: nobody uses it and its memory will be reused."""

    draft: ResidentDraft


LoaderMessage = LoadDraft | CancelLoad | ReleaseDraft


# --- to VerifierStats -------------------------------------------------------------------------------------------------


class SequenceStarted(Message, frozen=True):
    """Announce a request whose rules learn; answered, like each of its iterations, with ThresholdsPublished."""

    request_id: str
    stop_rule: str
    accept: str


class IterationReport(Message, frozen=True):
    """Report one iteration; ``draft`` None is a plain target step, ``desired`` the first choice of the ranking."""

    request_id: str
    interval: int
    iteration: int
    epoch: int
    draft: ResidentDraft | None
    desired: str | None
    drafted: int
    accepted: int
    emitted: int
    catch_up_tokens: int
    catch_up_us: float
    draft_us: float
    verify_us: float
    waited_us: float  # decoding stood still before it
    waited_for: WaitedFor | None
    signals: tuple[float, ...] = ()  # what the stop rule went by, of each drafted token
    distances: tuple[float, ...] = ()  # of each verified token that was emitted, and of the rejected one
    departures: tuple[int, ...] = ()  # positions of tokens accepted though the target's own choice was another

    @property
    def rejected(self) -> int:
        """Return 1 if a drafted token was rejected and replaced, else 0: a text that ends earlier rejects nothing."""
        return int(self.accepted < min(self.drafted, self.emitted))


class GetStatistics(Message, frozen=True):
    """Ask for the statistics gathered since the engine was opened."""


VerifierStatsMessage = SequenceStarted | IterationReport | GetStatistics
