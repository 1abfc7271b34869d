"""Look for a draft that the predictor does not know to be right, where it is at a loss.

Its first choice is a guess where it is given no more than GUESS. If then no draft that was seen does well, one of which
nothing is known is put in the second place: it is loaded, and heard as it is warmed on the text. Each is tried once in
a text, first those whose trials have paid, in whatever texts; a trial counts as soon as the draft was heard.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

__all__ = ["GUESS", "Discoveries", "Search"]

GUESS = 0.4  # the predictor's probability of its first choice
DESPAIR = 3.0  # nats that speak against every draft
LEAST_HOPE = 0.2  # a draft is tried while its trials may pay as often as that
FADING = 0.97  # of what is known, with every text in which that let nothing be tried: times change


class Discoveries:
    """Count, over all texts, the trials of drafts and how many have paid; one that was never tried pays every other."""

    def __init__(self) -> None:
        self._trials: defaultdict[str, float] = defaultdict(float)
        self._paid: defaultdict[str, float] = defaultdict(float)

    def tried(self, draft: str) -> None:
        """Hear that a draft that was loaded only to be heard has been heard."""
        self._trials[draft] += 1

    def paid(self, draft: str) -> None:
        """Hear that a draft that was tried does well."""
        self._paid[draft] += 1

    def fade(self) -> None:
        """Forget a little: what never paid is tried again one day."""
        for counts in (self._trials, self._paid):
            for draft in counts:
                counts[draft] *= FADING

    def most_hopeful(self, drafts: Collection[str]) -> str | None:
        """Return which of the drafts to try, the first of equals; None if no trial is likely to pay."""
        best = max(drafts, key=self._hope, default=None)
        return None if best is None or self._hope(best) < LEAST_HOPE else best

    def _hope(self, draft: str) -> float:
        return (self._paid[draft] + 1) / (self._trials[draft] + 2)


class Search:
    """Try one draft after the other in one text: ``trying`` at present; ``found`` holds those that did well."""

    def __init__(self, discoveries: Discoveries) -> None:
        self.found: set[str] = set()
        self.trying: str | None = None
        self._discoveries = discoveries
        self._tried: set[str] = set()
        self._unheard: set[str] = set()  # of those that were tried
        self._has_given_up = False

    def see(self, doubts: Mapping[str, float], prior: float, order: Sequence[str], out: Collection[str]) -> None:
        """Decide which draft to try, if any.

        ``doubts`` are what speaks against the drafts that were seen enough, in nats, ``prior`` what does so beforehand.
        ``order`` ranks all drafts, the first is to run; those in ``out`` cannot be tried.
        """
        for draft in self._unheard.intersection(doubts):
            self._unheard.discard(draft)
            self._discoveries.tried(draft)
        for draft in self._tried.difference(self.found):
            if doubts.get(draft, 0.0) < 0.0:
                self.found.add(draft)
                self._discoveries.paid(draft)
        if self.trying in (order[0], *out, *doubts):
            self.trying = None
        if self.trying is None and doubts and prior + min(doubts.values()) > DESPAIR:
            known = {order[0], *self._tried, *out, *doubts}
            unknown = [draft for draft in order if draft not in known]
            self.trying = self._discoveries.most_hopeful(unknown)
            if self.trying is not None:
                self._tried.add(self.trying)
                self._unheard.add(self.trying)
            elif unknown and not self._has_given_up:
                self._has_given_up = True
                self._discoveries.fade()
