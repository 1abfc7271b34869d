"""How a generation looks: text with a status line under it on a terminal, plain text elsewhere, or one JSON object."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from memspec_actors.cli.output import print_json
from memspec_actors.protocols.results import GenerationResult, TextChunk

__all__ = ["Display", "JsonDisplay", "LiveDisplay", "PlainDisplay", "choose_display", "summary"]


REDRAW_S = 0.08  # drawing costs more than an iteration of a small model


class Display(Protocol):
    """Show the chunks of a generation while entered, then its result."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def loading(self, draft: str, done: int, total: int) -> None: ...

    def chunk(self, chunk: TextChunk) -> None: ...

    def finish(self, result: GenerationResult) -> None: ...


def choose_display(*, json: bool) -> Display:
    """Choose by what standard output is."""
    if json:
        return JsonDisplay()
    return LiveDisplay(Console(highlight=False)) if sys.stdout.isatty() else PlainDisplay()


class JsonDisplay:
    """Print the result as one JSON object, and nothing else."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def loading(self, draft: str, done: int, total: int) -> None:
        pass

    def chunk(self, chunk: TextChunk) -> None:
        pass

    def finish(self, result: GenerationResult) -> None:
        print_json(result)


class PlainDisplay:
    """Write the text as it comes, ended by a newline."""

    def __init__(self) -> None:
        self._last = "\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._last.endswith("\n"):
            self._write("\n")

    def loading(self, draft: str, done: int, total: int) -> None:
        pass

    def chunk(self, chunk: TextChunk) -> None:
        if chunk.text:
            self._write(chunk.text)

    def finish(self, result: GenerationResult) -> None:
        pass

    def _write(self, text: str) -> None:
        self._last = text
        sys.stdout.write(text)
        sys.stdout.flush()


class LiveDisplay:
    """Write ended lines for good; redraw the last line and the status under it."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="visible")
        self._clock = clock
        self._line = ""
        self._status = _Status(clock)
        self._drawn_at = float("-inf")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.update(Text(self._line) if self._line else Group(), refresh=True)
        self._live.stop()

    def loading(self, draft: str, done: int, total: int) -> None:
        self._status.load(draft, done, total)
        self._draw()

    def chunk(self, chunk: TextChunk) -> None:
        *ended, self._line = (self._line + chunk.text).split("\n")
        for line in ended:
            self._live.console.print(Text(line), soft_wrap=True)
        self._status.add(chunk)
        self._draw()

    def finish(self, result: GenerationResult) -> None:
        self._live.console.print(Text(summary(result), style="dim"))

    def _draw(self) -> None:
        status = Text(str(self._status), style="dim", no_wrap=True)
        due = self._clock() - self._drawn_at >= REDRAW_S
        self._live.update(Group(Text(self._line), status), refresh=due)
        if due:
            self._drawn_at = self._clock()


class _Status:
    """Follow a generation: active draft, resident set, what is loading, tokens per second, acceptance."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began: float | None = None
        self._tokens = self._drafted = self._accepted = 0
        self._draft: str | None = None
        self._resident: tuple[str, ...] = ()
        self._loading: dict[str, float] = {}

    def load(self, draft: str, done: int, total: int) -> None:
        self._loading[draft] = done / total
        if done == total:
            del self._loading[draft]

    def add(self, chunk: TextChunk) -> None:
        if self._began is None:  # the speed is that of what comes after the first tokens
            self._began = self._clock()
        else:
            self._tokens += len(chunk.token_ids)
        self._drafted += chunk.drafted
        self._accepted += chunk.accepted
        self._draft, self._resident = chunk.draft, chunk.resident

    def __str__(self) -> str:
        parts = [f"draft {self._draft or 'none'}", f"resident {' '.join(self._resident) or 'none'}"]
        parts += [f"loading {draft} {share:.0%}" for draft, share in self._loading.items()]
        seconds = 0.0 if self._began is None else self._clock() - self._began
        if seconds:
            parts.append(f"{self._tokens / seconds:.0f} tokens/s")
        if self._drafted:
            parts.append(f"accepted {self._accepted / self._drafted:.0%}")
        return " | ".join(parts)


def summary(result: GenerationResult) -> str:
    """Say in one line how a generation went."""
    speed, length = result.timing.tokens_per_second, result.metrics.speculative_decoding.mean_acceptance_length
    drafts = ", ".join(f"{name} {used.tokens}" for name, used in result.scheduling.drafts.items() if used.iterations)
    return (
        f"{result.usage.completion_tokens} tokens ({result.finish_reason}) at {speed:.1f} a second, "
        f"{length:.2f} tokens a speculative step, {result.scheduling.switches} switches; by draft: {drafts or 'none'}"
    )
