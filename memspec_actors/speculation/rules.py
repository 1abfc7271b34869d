"""Acceptance rules by name."""

from difflib import get_close_matches

from memspec_actors.errors import ConfigError, InvalidRequest
from memspec_actors.quantities import parse_number
from memspec_actors.speculation.accept import AcceptanceRule, Exact, Match, Rejection
from memspec_actors.speculation.lossy import Bayes, CrossEntropyThreshold, DivergenceThreshold, Typical
from memspec_actors.speculation.own_rules import own_rule

__all__ = ["acceptance_rule"]

_LOSSLESS = ("auto", "exact", "match", "rejection")
_LOSSY = ("bayes", "typical", "fsd:THRESHOLD", "bild:THRESHOLD")
_OWN = "module:Class"


def acceptance_rule(name: str, *, greedy: bool) -> AcceptanceRule:
    """Return a new rule for one request; ``auto`` is ``exact`` when greedy, else ``match``.

    At temperature 0 ``match`` and ``rejection`` are ``exact``: their noise decides nothing. ``bayes``, ``typical``,
    ``fsd:THRESHOLD`` (bits, in [0, 1]) and ``bild:THRESHOLD`` (nats) are lossy. ``module:Class`` is a rule of the
    user's own, made with that name. Raises ConfigError for an unknown name and InvalidRequest for ``exact`` at a
    temperature above 0.
    """
    if name in _LOSSLESS:
        return _lossless_rule(name, greedy=greedy)
    kind, _, argument = name.partition(":")
    match kind:
        case "bayes" if name == kind:
            return Bayes(name)
        case "typical" if name == kind:
            return Typical(name)
        case "fsd":
            return DivergenceThreshold(name, _threshold(name, argument, highest=1.0))
        case "bild":
            return CrossEntropyThreshold(name, _threshold(name, argument))
    if (rule := own_rule("accept", name, name)) is not None:
        if not isinstance(rule, AcceptanceRule):
            raise ConfigError(
                f"accept is {name!r}, but that is no acceptance rule: see {AcceptanceRule.__module__}.AcceptanceRule"
            )
        return rule
    raise ConfigError(f"accept is {name!r}; known rules: {', '.join((*_LOSSLESS, *_LOSSY, _OWN))}{_nearest(kind)}")


def _lossless_rule(name: str, *, greedy: bool) -> AcceptanceRule:
    if greedy:
        return Exact()
    if name == "exact":
        raise InvalidRequest(
            "accept 'exact' needs temperature 0: it takes the target's argmax; use 'match' (same text under every "
            "draft) or 'rejection' to sample"
        )
    return Rejection() if name == "rejection" else Match()


def _threshold(name: str, argument: str, highest: float = float("inf")) -> float:
    threshold = parse_number(argument)
    if threshold is None or not 0.0 <= threshold <= highest:
        most = "" if highest == float("inf") else f" and <= {highest:g}"
        kind = name.partition(":")[0]
        raise ConfigError(f"accept is {name!r}; write {kind}:THRESHOLD with a number >= 0{most}, as in '{kind}:0.4'")
    return threshold


def _nearest(kind: str) -> str:
    near = get_close_matches(kind, [*_LOSSLESS, "bayes", "typical", "fsd", "bild"], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
