"""Where the prompts of a trace come from: a file, or the embedded models' own generator."""

import random
from collections.abc import Iterable
from pathlib import Path

import msgspec

from memspec_actors.errors import TraceError

__all__ = ["Prompt", "domain_prompts", "read_prompts", "zoo_prompts"]

ZOO_SOURCE = "zoo:"
MAX_DIGITS = 7  # of a number of prompts


class Prompt(msgspec.Struct, frozen=True):
    """A prompt with the kind of text it asks for: a domain, "mixed", or "" if unknown."""

    prompt: str
    kind: str = ""


def read_prompts(source: str | Path, *, limit: int | None = None) -> list[Prompt]:
    """Read prompts from JSON lines with a "prompt" (and optional "kind"), from plain text lines, or from
    "zoo:SPLIT[:COUNT]".

    A ``.jsonl`` file is JSON lines, any other file plain text, one prompt a line; blank lines are skipped. Raises
    TraceError naming the file and the line.
    """
    if str(source).startswith(ZOO_SOURCE):
        return _from_zoo(str(source))[:limit]
    path = Path(source)
    try:
        with path.open(encoding="utf-8-sig") as file:  # without the byte order mark that some editors write
            lines = [line.rstrip("\n") for line in file]  # str.splitlines would split at U+2028 and the like, too
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TraceError(f"{path}: {reason}; give a file of prompts, or zoo:train or zoo:eval") from error
    prompts = list(_parse(path, lines))
    if not prompts:
        raise TraceError(f"{path}: no prompts; give one a line")
    return prompts[:limit]


def zoo_prompts(split: str, count: int, *, mixed_share: float = 0.6) -> list[Prompt]:
    """Write ``count`` requests with the embedded models' generator.

    ``split`` "train" and "eval" draw from different random streams and from disjoint sets of names. A share of the
    requests is mixed (two to four items, neighbours of different domains); the others keep to one domain, all domains
    equally often.
    """
    from memspec_actors.zoo import world

    chosen: world.Split = "train" if split == "train" else "eval"
    if split != chosen:
        raise TraceError(f"unknown split {split!r} of the zoo's generator; known: train, eval")
    rng = random.Random(f"{split}:predictor")
    num_mixed = round(count * mixed_share)
    kinds = ["mixed"] * num_mixed + [world.DOMAINS[i % len(world.DOMAINS)] for i in range(count - num_mixed)]
    rng.shuffle(kinds)
    return [
        Prompt(world.sample_request(rng, _phases(rng, kind, world.DOMAINS), split=chosen).prompt_text, kind)
        for kind in kinds
    ]


def domain_prompts(domain: str, split: str, count: int) -> list[Prompt]:
    """Write ``count`` requests of one domain with the embedded models' generator; one in four asks for two things.

    Raises TraceError for a domain that there is not.
    """
    from memspec_actors.zoo import world

    if domain not in world.DOMAINS:
        raise TraceError(f"domain {domain!r} is unknown; known are {', '.join(world.DOMAINS)}")
    chosen: world.Split = "train" if split == "train" else "eval"
    rng = random.Random(f"{split}:{domain}")
    phases = [(domain,) * (1 + (index % 4 == 0)) for index in range(count)]
    return [Prompt(world.sample_request(rng, each, split=chosen).prompt_text, domain) for each in phases]


def _phases(rng: random.Random, kind: str, domains: tuple[str, ...]) -> tuple[str, ...]:
    if kind != "mixed":
        return (kind,) * rng.choice((2, 3, 4))
    phases = [rng.choice(domains)]
    for _ in range(rng.choice((1, 2, 3))):
        phases.append(rng.choice([domain for domain in domains if domain != phases[-1]]))
    return tuple(phases)


def _from_zoo(source: str) -> list[Prompt]:
    split, _, count = source.removeprefix(ZOO_SOURCE).partition(":")
    if count and not (count.isascii() and count.isdigit() and len(count) <= MAX_DIGITS):
        raise TraceError(f"{source!r}: {count!r} is not a number of prompts; write zoo:SPLIT or zoo:SPLIT:COUNT")
    prompts = zoo_prompts(split, int(count or 200))
    if not prompts:
        raise TraceError(f"{source!r}: no prompts; ask for at least one")
    return prompts


def _parse(path: Path, lines: Iterable[str]) -> Iterable[Prompt]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if path.suffix != ".jsonl":
            yield Prompt(line)
            continue
        try:
            prompt = msgspec.json.decode(line, type=Prompt)
        except msgspec.DecodeError as error:
            raise TraceError(f'{path}, line {number}: {error}; write {{"prompt": "..."}}') from error
        yield prompt
