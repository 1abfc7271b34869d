"""Name whole systems: each a stop rule and an acceptance rule, or a model that decodes alone."""

from difflib import get_close_matches
from typing import NamedTuple

from msgspec.structs import replace

from memspec_actors.config import Config
from memspec_actors.errors import ConfigError

__all__ = ["METHODS", "Choice", "Rules", "choose", "decoding_alone", "stopping_by"]

TARGET, DRAFT = "target", "draft:"
TARGET_ONLY = "target-only"


class Rules(NamedTuple):
    """A stop rule and an acceptance rule, by name."""

    stop: str
    accept: str


#: The systems of AdaSD's tables that draft, and two more; ``rejection`` is speculative sampling, exact when greedy.
METHODS = {
    "vanilla": Rules("fixed:5", "rejection"),
    "assistedgen": Rules("confidence", "rejection"),
    "gen-only": Rules("entropy", "rejection"),
    "verify-only": Rules("fixed:5", "bayes"),
    "adasd": Rules("entropy", "bayes"),
    "adasd+assistedgen": Rules("confidence", "bayes"),
    # With the stop rule that weighs what a token promises against what it costs; the last tolerates far less.
    "gain-only": Rules("gain", "rejection"),
    "adasd+gain": Rules("gain", "bayes"),
    "typical": Rules("gain", "typical"),
}


class Choice(NamedTuple):
    """What a request runs with; ``draft_alone`` names the draft whose own text it gives."""

    policy: str
    stop: str
    accept: str
    draft_alone: str | None


def choose(
    config: Config,
    *,
    policy: str | None = None,
    stop: str | None = None,
    accept: str | None = None,
    method: str | None = None,
) -> Choice:
    """Put together what a request asks for and what the configuration says.

    The request comes before the configuration, and within each a rule before the method. Raises ConfigError for an
    unknown method, and where a method that drafts nothing meets a policy that does.
    """
    speculation = config.speculation
    name = speculation.method if method is None else method
    if name is None:
        rules = Rules(speculation.stop, speculation.accept)
    elif name == TARGET or name.startswith(DRAFT):
        if policy not in (None, TARGET_ONLY):
            raise ConfigError(f"method {name!r} drafts nothing; leave out policy {policy!r}")
        policy, rules = TARGET_ONLY, Rules("fixed:0", "auto")
    else:
        rules = _rules(name)
    return Choice(
        policy=config.schedule.policy if policy is None else policy,
        stop=rules.stop if stop is None else stop,
        accept=rules.accept if accept is None else accept,
        draft_alone=_draft_alone(config, name),
    )


def stopping_by(config: Config, stop: str) -> Config:
    """Return the configuration with another stop rule; what is accepted stays, also where a method says it."""
    rules = choose(config, stop=stop)
    return replace(config, speculation=replace(config.speculation, method=None, stop=rules.stop, accept=rules.accept))


def decoding_alone(config: Config) -> Config:
    """Return the configuration that runs ``config``: for method ``draft:NAME`` that draft takes the target's place.

    Raises ConfigError for a draft that is not configured.
    """
    method = config.speculation.method or ""
    name = method.removeprefix(DRAFT)
    if name == method:
        return config
    for draft in config.drafts:
        if draft.name == name:
            return replace(config, target=replace(config.target, model=draft.model), drafts=())
    known = ", ".join(draft.name for draft in config.drafts) or "none"
    raise ConfigError(f"method is {method!r}, but no draft is named {name!r}; drafts: {known}")


def _draft_alone(config: Config, method: str | None) -> str | None:
    """Return the draft that takes the target's place. It does so for a whole engine, not for one request."""
    own = config.speculation.method
    alone = own.removeprefix(DRAFT) if own is not None and own.startswith(DRAFT) else None
    if method != own and (alone is not None or (method or "").startswith(DRAFT)):
        raise ConfigError(
            f"method {method!r} cannot be chosen for one request of an engine with method {own!r}: open another engine"
        )
    return alone


def _rules(name: str) -> Rules:
    rules = METHODS.get(name)
    if rules is None:
        near = get_close_matches(name, [*METHODS, TARGET], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"method is {name!r}; known methods: {', '.join(METHODS)}, target, draft:NAME{hint}")
    return rules
