"""Count what iterations did: for one request, or for the life of an engine."""

from dataclasses import dataclass

from memspec_actors.protocols.events import ShareKind
from memspec_actors.protocols.messages import IterationReport, WaitedFor
from memspec_actors.protocols.results import Departures, DraftFigures, Share, SpeculativeMetrics

__all__ = ["SpeculationCounters", "share_kind"]


def share_kind(draft: str | None, desired: str | None) -> ShareKind:
    """Name what ran: the desired draft (or any, if none was desired), another one, or the target alone."""
    if draft is None:
        return "target_only"
    return "desired" if desired is None or draft == desired else "fallback"


@dataclass(slots=True)
class _DraftCounts:
    iterations: int = 0
    drafted: int = 0
    accepted: int = 0
    tokens: int = 0


class SpeculationCounters:
    """Add up iterations; ``num_spec_tokens`` is the longest draft that was asked for.

    Whatever is added: accepted <= drafted, and the histogram's sum is the accepted tokens.
    """

    def __init__(self, num_spec_tokens: int = 0) -> None:
        self._num_spec_steps = 0
        self._num_drafted = 0
        self._num_accepted = 0
        self._num_emitted = 0
        self._num_departures = 0
        self._histogram = [0] * num_spec_tokens
        self._drafts: dict[str, _DraftCounts] = {}
        self._time_us = {"desired": 0.0, "fallback": 0.0, "target_only": 0.0}
        self._time_us |= {"catch_up": 0.0, "prediction": 0.0, "waited": 0.0}

    def add(
        self,
        *,
        draft: str | None,
        share: ShareKind,
        drafted: int,
        accepted: int,
        emitted: int,
        work_us: float,
        catch_up_us: float = 0.0,
        waited_us: float = 0.0,
        waited_for: WaitedFor | None = None,
        departures: int = 0,
    ) -> None:
        """Add one iteration.

        ``accepted`` and ``emitted`` count only tokens that survived the cut. ``work_us`` is drafting and verifying
        without ``catch_up_us``, and ``waited_us`` what was spent waiting before. ``departures`` of the accepted tokens
        were not the target's own choice.
        """
        assert 0 <= accepted <= drafted, f"{accepted} of {drafted} drafted tokens accepted"
        # One token is the target's own, unless the text ended before it.
        assert accepted <= emitted <= accepted + 1, f"{emitted} tokens emitted, {accepted} of them accepted"
        assert draft is not None or drafted == 0, f"{drafted} tokens drafted by no draft"
        assert departures <= accepted, f"{departures} departures among {accepted} accepted tokens"
        self._num_emitted += emitted
        self._num_departures += departures
        self._time_us[share] += work_us
        self._time_us["catch_up"] += catch_up_us
        self._time_us["prediction" if waited_for == "prediction" else "waited"] += waited_us
        if drafted:
            self._add_step(drafted, accepted)
        if draft is not None:
            self._add_draft(draft, drafted, accepted, emitted)

    def add_report(self, report: IterationReport) -> None:
        """Add the iteration that a report describes."""
        draft = None if report.draft is None else report.draft.name
        self.add(
            draft=draft,
            share=share_kind(draft, report.desired),
            drafted=report.drafted,
            accepted=report.accepted,
            emitted=report.emitted,
            work_us=report.draft_us + report.verify_us,
            catch_up_us=report.catch_up_us,
            waited_us=report.waited_us,
            waited_for=report.waited_for,
            departures=len(report.departures),
        )

    def metrics(self) -> SpeculativeMetrics:
        """Return vLLM's figures; rates of nothing are 0."""
        steps, drafted, accepted = self._num_spec_steps, self._num_drafted, self._num_accepted
        return SpeculativeMetrics(
            mean_acceptance_length=1.0 + accepted / steps if steps else 0.0,
            draft_acceptance_rate=accepted / drafted if drafted else 0.0,
            acceptance_histogram=tuple(self._histogram),
            num_spec_steps=steps,
            num_accepted_draft_tokens=accepted,
            num_draft_tokens=drafted,
            num_spec_tokens=len(self._histogram),
        )

    def departures(self) -> Departures:
        """Return how often a lossy rule kept a token that was not the target's own choice."""
        num = self._num_departures
        return Departures(num_tokens=num, share=num / self._num_emitted if num else 0.0)

    def share(self) -> Share:
        """Return the fractions of decode time; all 0 if no time passed."""
        total = sum(self._time_us.values())
        return Share(**{kind: us / total for kind, us in self._time_us.items()}) if total > 0.0 else Share()

    def drafts(self) -> dict[str, DraftFigures]:
        """Return the figures of each draft that ran, by name."""
        return {
            name: DraftFigures(
                iterations=counts.iterations, drafted=counts.drafted, accepted=counts.accepted, tokens=counts.tokens
            )
            for name, counts in self._drafts.items()
        }

    def _add_step(self, drafted: int, accepted: int) -> None:
        self._num_spec_steps += 1
        self._num_drafted += drafted
        self._num_accepted += accepted
        self._histogram.extend([0] * (drafted - len(self._histogram)))
        for position in range(accepted):
            self._histogram[position] += 1

    def _add_draft(self, draft: str, drafted: int, accepted: int, emitted: int) -> None:
        counts = self._drafts.setdefault(draft, _DraftCounts())
        counts.iterations += 1
        counts.drafted += drafted
        counts.accepted += accepted
        counts.tokens += emitted
