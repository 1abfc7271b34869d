"""A timeline as an SVG or PNG picture, by matplotlib."""

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Literal

from memspec_actors.errors import UsageError
from memspec_actors.telemetry.story import DraftSpan, Ran, Story

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["timeline_picture"]

_FADE = {"loading": 0.3, "warming": 0.4, "resident": 0.55, "revoked": 0.2}
_TARGET = "#8c949c"


def timeline_picture(story: Story, picture_format: Literal["svg", "png"]) -> bytes:
    """Draw lanes of the drafts' states, what ran, and what was accepted. Raises UsageError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        what = "drawing a picture needs matplotlib; install memspec-actors[plots], or write an .html file"
        raise UsageError(what) from error
    names = story.draft_names
    figure = Figure(figsize=(12, 3.4 + 0.45 * len(names)), layout="constrained")
    lanes, acceptance = figure.subplots(2, 1, sharex=True, height_ratios=[2 + len(names), 2])
    colours = {name: f"C{index}" for index, name in enumerate(names)}
    _draw_lanes(lanes, story, colours)
    _draw_acceptance(acceptance, story.iterations, colours)
    acceptance.set_xlim(0.0, max(story.end, 1e-3))
    buffer = BytesIO()
    figure.savefig(buffer, format=picture_format, dpi=150)
    return buffer.getvalue()


def _draw_lanes(axes: "Axes", story: Story, colours: dict[str, str]) -> None:
    names = list(colours)
    for lane, name in enumerate(names):
        spans = [span for span in story.drafts if span.draft == name]
        for state, fade in _FADE.items():
            _bars(axes, [span for span in spans if span.state == state], lane, 0.4, colours[name], fade)
        _bars(axes, [ran for ran in story.iterations if ran.draft == name], lane, 0.8, colours[name], 1.0)
    _bars(axes, [ran for ran in story.iterations if ran.draft is None], len(names), 0.8, _TARGET, 1.0)
    _mark_predictions(axes, story, colours, lane=len(names) + 1)
    axes.set_yticks(range(len(names) + 2), [*names, "target alone", "ranked first"])
    axes.set_title("drafts: loading, resident, revoked (pale); decoding (full)", fontsize="medium", loc="left")
    axes.invert_yaxis()


def _mark_predictions(axes: "Axes", story: Story, colours: dict[str, str], lane: int) -> None:
    for name, colour in colours.items():
        ends = [ranked.end for ranked in story.predictions if ranked.order[:1] == (name,)]
        axes.scatter(ends, [lane] * len(ends), marker="|", s=90, color=colour)


def _draw_acceptance(axes: "Axes", iterations: Sequence[Ran], colours: dict[str, str]) -> None:
    drafted = [ran for ran in iterations if ran.drafted]
    starts, widths = [ran.start for ran in drafted], [ran.end - ran.start for ran in drafted]
    shades = [colours.get(ran.draft or "", _TARGET) for ran in drafted]
    axes.bar(starts, [ran.drafted for ran in drafted], widths, align="edge", color=shades, alpha=0.2)
    axes.bar(starts, [ran.accepted for ran in drafted], widths, align="edge", color=shades)
    axes.set_ylabel("accepted")
    axes.set_xlabel("seconds")


def _bars(axes: "Axes", spans: Sequence[DraftSpan | Ran], lane: int, height: float, colour: str, fade: float) -> None:
    ranges = [(span.start, span.end - span.start) for span in spans]
    axes.broken_barh(ranges, (lane - height / 2, height), facecolors=colour, alpha=fade, linewidth=0)
