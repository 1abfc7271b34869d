"""``memspec run``: what it asks of the engine, and what comes out where."""

import io
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from memspec_actors.cli import main
from memspec_actors.cli.display import LiveDisplay, summary
from memspec_actors.config import Config
from memspec_actors.errors import InvalidRequest, LoadError
from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.protocols.results import DraftFigures, FinishReason, GenerationResult, Share, TextChunk, Usage
from tests.results import NOTHING


def make_chunk(text: str) -> TextChunk:
    return TextChunk(text=text, token_ids=(1, 2), draft="code", resident=("code", "math"), accepted=1, drafted=4)


def make_result(text: str, finish_reason: FinishReason = "stop") -> GenerationResult:
    return replace(
        NOTHING,
        text=text,
        token_ids=(1, 2, 3),
        finish_reason=finish_reason,
        usage=Usage(prompt_tokens=4, completion_tokens=3, total_tokens=7),
        timing=replace(NOTHING.timing, tokens_per_second=12.5),
        metrics=replace(
            NOTHING.metrics,
            speculative_decoding=replace(
                NOTHING.metrics.speculative_decoding, mean_acceptance_length=2.25, draft_acceptance_rate=0.25
            ),
        ),
        scheduling=replace(
            NOTHING.scheduling,
            switches=1,
            loads=2,
            share=Share(desired=1.0),
            drafts={"code": DraftFigures(iterations=1, drafted=4, accepted=1, tokens=3), "law": DraftFigures()},
        ),
    )


class FakeStream:
    """Yield the engine's chunks, then have its result or raise its error."""

    def __init__(self, engine: "FakeEngine") -> None:
        self._engine = engine
        self.result = engine.result

    async def __aiter__(self) -> AsyncIterator[TextChunk]:
        for text in self._engine.texts:
            yield make_chunk(text)
        if self._engine.error is not None:
            raise self._engine.error

    def cancel(self) -> None:
        raise AssertionError("nobody interrupted")


class FakeEngine:
    """Stand in for MemSpec."""

    def __init__(self) -> None:
        self.texts: tuple[str, ...] = ("one ", "two\nthr", "", "ee")
        self.result = make_result("one two\nthree")
        self.error: Exception | None = None
        self.config = Config()
        self.prompt = ""
        self.asked: dict[str, Any] = {}

    @asynccontextmanager
    async def open(self, config: Config, *, on_load: Callable[[str, int, int], None]) -> AsyncIterator["FakeEngine"]:
        self.config = config
        on_load("code", 5, 10)
        on_load("code", 10, 10)
        yield self

    def stream(self, prompt: str, **asked: Any) -> FakeStream:
        self.prompt, self.asked = prompt, asked
        return FakeStream(self)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """A public-API stand-in for MemSpec: it says what it is told to, and remembers what it was asked."""
    fake = FakeEngine()
    monkeypatch.setattr("memspec_actors.cli.generation.MemSpec", fake)
    return fake


def test_text_is_streamed_to_standard_output(engine: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe must get the text and a final newline, nothing else: no status, no colours."""
    assert main(["run", "hello"]) == 0
    output = capsys.readouterr()
    assert (output.out, output.err) == ("one two\nthree\n", "")
    assert engine.prompt == "hello"


def test_newline_is_not_doubled(engine: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.texts = ("one\n", "")
    assert main(["run", "hello"]) == 0
    assert capsys.readouterr().out == "one\n"


def test_json_is_one_object_and_nothing_else(engine: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    """A script that reads standard output must be able to decode it as it is."""
    assert main(["run", "hello", "--json"]) == 0
    output = capsys.readouterr()
    assert msgspec.json.decode(output.out, type=GenerationResult) == engine.result
    assert output.out.count("\n") == 1
    assert output.err == ""


def test_options_reach_the_engine(engine: FakeEngine, tmp_path: Path) -> None:
    """An option that is parsed and forgotten would change nothing here."""
    options = "--policy target-only --stop fixed:2 --accept match --max-new-tokens 7 --temperature 0.5 --top-k 3"
    options += " --top-p 0.9 --min-p 0.1 --seed 11 --stop-string END --stop-string FIN --raw"
    assert main(["run", "hello", *options.split(), "--events", str(tmp_path / "log")]) == 0
    sampling = SamplingParams(temperature=0.5, top_k=3, top_p=0.9, min_p=0.1, seed=11, stop=("END", "FIN"))
    assert engine.asked == {"max_new_tokens": 7, "sampling": sampling, "raw": True}
    assert engine.config.schedule.policy == "target-only"
    assert (engine.config.speculation.stop, engine.config.speculation.accept) == ("fixed:2", "match")
    assert engine.config.events.path == str(tmp_path / "log")


def test_defaults_are_greedy_and_leave_the_configuration_alone(engine: FakeEngine, tmp_path: Path) -> None:
    file = tmp_path / "memspec.toml"
    file.write_text('schedule.policy = "static:law"\nspeculation.stop = "fixed:3"', encoding="utf-8")
    assert main(["run", "hello", "--config", str(file)]) == 0
    assert engine.asked == {"max_new_tokens": 256, "sampling": SamplingParams(), "raw": False}
    assert (engine.config.schedule.policy, engine.config.speculation.stop) == ("static:law", "fixed:3")
    assert engine.config.events.path is None


@pytest.mark.parametrize("arguments", [["run"], ["run", "-"]])
def test_prompt_comes_from_standard_input(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("two\nlines\n"))
    assert main(arguments) == 0
    assert engine.prompt == "two\nlines\n"


def test_no_prompt_on_a_terminal_is_told_at_once(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Waiting for a prompt that nobody knows is expected looks like a hang."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    assert main(["run"]) == 2
    assert capsys.readouterr().err.startswith("memspec: error: there is no prompt; give one")


@pytest.mark.parametrize("arguments", [["run"], ["run", "-"]])
def test_nothing_on_standard_input_is_no_prompt(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Started with standard input closed or from nowhere, as services are: it would answer what nobody asked."""
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("memspec: error: there is no prompt; give one")


def test_prompt_that_is_no_utf8_is_refused(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"ab\xff"), encoding="utf-8"))
    assert main(["run"]) == 2
    assert "byte 2" in capsys.readouterr().err


@pytest.mark.parametrize("options", ["--temperature -1", "--top-p 0", "--min-p 2", "--top-k -1", "--seed -1"])
def test_sampling_out_of_range_is_bad_use(engine: FakeEngine, capsys: pytest.CaptureFixture[str], options: str) -> None:
    name, value = options.split()
    assert main(["run", "hello", name, value]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"memspec: error: {name[2:].replace('-', '_')} is ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(("error", "code"), [(InvalidRequest("too long"), 2), (LoadError("disk gone"), 1)])
def test_error_in_the_middle_keeps_the_text_so_far(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    engine.error = error
    assert main(["run", "hello"]) == code
    output = capsys.readouterr()
    assert (output.out, output.err) == ("one two\nthree\n", f"memspec: error: {error}\n")


def plain(terminal: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal).replace("\r", "")


def test_terminal_shows_text_and_status() -> None:
    """On a terminal one must see which draft works, what is resident, what loads, and how fast."""
    screen, seconds = io.StringIO(), iter(range(1000))
    console = Console(file=screen, force_terminal=True, width=100, highlight=False)
    display = LiveDisplay(console, clock=lambda: next(seconds) / 2)
    display.loading("law", 5, 10)
    with display:
        for text in ("one ", "[bold]two", "\nthr", "ee"):
            display.chunk(make_chunk(text))
        display.loading("law", 10, 10)
    display.finish(make_result("one [bold]two\nthree"))
    seen = plain(screen.getvalue())
    assert "one [bold]two\n" in seen  # text is not markup
    assert "draft code | resident code math | loading law 50% | " in seen
    assert re.search(r"resident code math \| \d+ tokens/s \| accepted 25%", seen)
    assert seen.rstrip("\n").endswith(f"three\n{summary(make_result(''))}")


def test_status_is_not_redrawn_for_every_chunk() -> None:
    """Drawing a terminal takes longer than an iteration: drawn each time, it would slow decoding down."""
    screen = io.StringIO()
    with LiveDisplay(Console(file=screen, force_terminal=True, width=100), clock=lambda: 1.0) as display:
        for _ in range(100):
            display.chunk(make_chunk("x"))
    assert plain(screen.getvalue()).count("draft code") == 1
    assert "x" * 100 in plain(screen.getvalue())


def test_ended_lines_are_written_once() -> None:
    """A line that was redrawn with the status would fill the scroll-back with copies."""
    screen = io.StringIO()
    with LiveDisplay(Console(file=screen, force_terminal=True, width=100)) as display:
        for text in ("first ", "line\nsecond", " line\n", "x"):
            display.chunk(make_chunk(text))
    assert plain(screen.getvalue()).count("first line\n") == 1


def test_summary_names_the_figures() -> None:
    assert summary(make_result("x", "length")) == (
        "3 tokens (length) at 12.5 a second, 2.25 tokens a speculative step, 1 switches; by draft: code 3"
    )
