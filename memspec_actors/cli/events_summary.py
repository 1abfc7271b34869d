"""How a summary of event logs looks on a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from rich.table import Table
from rich.text import Text

from memspec_actors.cli.output import wide_console
from memspec_actors.protocols.results import Share
from memspec_actors.telemetry.summary import DomainSummary, DraftSummary, Spread, Summary

__all__ = ["print_summary"]

FIRST_POSITIONS = 5  # of a draft's tokens that each get a figure
WRAPPED = ("by position", "share of time")


def print_summary(summary: Summary, by: Literal["request", "draft", "domain"]) -> None:
    """Print the figures of all requests and, one row each, those of requests, drafts or domains."""
    console = wide_console()
    figures = Table(box=None, show_header=False, pad_edge=False)
    for name, value in _figures(summary).items():
        figures.add_row(Text(name, style="bold"), Text(value))
    console.print(figures)
    rows = {"request": _request_rows, "draft": _draft_rows, "domain": _domain_rows}[by]
    console.print()
    console.print(_table(rows(summary)))


def _figures(summary: Summary) -> Mapping[str, str]:
    speculative, prefetch = summary.speculative_decoding, summary.prefetch
    ends = ", ".join(f"{number} {reason}" for reason, number in summary.finish_reasons.items())
    reasons = ", ".join(f"{number} because {reason}" for reason, number in summary.eviction_reasons.items())
    spent = {name.removesuffix("_s"): getattr(summary.time, name) for name in summary.time.__struct_fields__}
    return {
        "requests": f"{summary.requests} ({ends}), {' '.join(summary.policies)}; at most"
        f" {summary.queue_depth.max:g} in the queue before one",
        "tokens": f"{summary.tokens} after {summary.prompt_tokens} of prompts",
        "tokens/s": f"{summary.tokens_per_second:.1f} over {summary.decode_s:.2f} s of decoding",
        "first token": _spread(summary.time_to_first_token_s, 1e3),
        "acceptance": f"{speculative.mean_acceptance_length:.2f} tokens per iteration with the target's own,"
        f" {speculative.draft_acceptance_rate:.1%} of the drafted",
        "by position": _by_position(speculative.acceptance_histogram, speculative.num_spec_steps),
        "share of time": _shares(summary.share),
        "time spent": ", ".join(f"{name.replace('_', ' ')} {seconds:.2f} s" for name, seconds in spent.items()),
        "loads": f"{summary.loads} finished, {summary.failed_loads} failed, {summary.cancelled_loads} cancelled; "
        + _spread(summary.load_ms),
        "prefetch": f"{prefetch.useful} useful, {prefetch.wasted} wasted",
        "evictions": f"{summary.evictions}" + (f": {reasons}" if reasons else ""),
        "switches": str(summary.switches),
        "predictions": f"{summary.predictions} applied; " + _spread(summary.predict_ms),
        "largest gap": f"{summary.largest_gap_ms:.1f} ms between two iterations",
        "restarts": _counts(summary.restarts) or "none",
        "mailboxes": f"at most {_counts(summary.mailbox_peaks)} messages" if summary.mailbox_peaks else "not known",
        "log": f"{summary.records} records of {summary.runs} run{'s' if summary.runs > 1 else ''},"
        f" {summary.skipped} lines skipped, {summary.unknown} records unknown",
    }


def _counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{actor} {number}" for actor, number in numbers.items())


Row = Mapping[str, str]


def _draft_rows(summary: Summary) -> Iterable[Row]:
    for name, draft in summary.drafts.items():
        yield {
            "draft": name,
            **_speculation(draft),
            "by position": _by_position(draft.acceptance_histogram, draft.iterations),
            "loads": str(draft.loads),
            "useful": str(draft.useful),
            "wasted": str(draft.wasted),
        }


def _speculation(figures: DraftSummary | DomainSummary) -> Row:
    return {
        "steps": str(figures.iterations),
        "tokens": str(figures.tokens),
        "accepted": f"{figures.draft_acceptance_rate:.1%}",
        "length": f"{figures.mean_acceptance_length:.2f}",
    }


def _request_rows(summary: Summary) -> Iterable[Row]:
    for request in summary.by_request:
        yield {
            "request": request.request_id[:8],
            "policy": request.policy or "",
            "end": request.finish_reason or "open",
            "tokens": str(request.tokens),
            "tokens/s": f"{request.tokens_per_second:.1f}",
            "length": f"{request.speculative_decoding.mean_acceptance_length:.2f}",
            "desired": f"{request.share.desired:.1%}",
            "fallback": f"{request.share.fallback:.1%}",
            "loads": str(request.loads),
            "switches": str(request.switches),
        }


def _domain_rows(summary: Summary) -> Iterable[Row]:
    for name, domain in summary.domains.items():
        yield {
            "domain": name,
            **_speculation(domain),
            "share of time": _shares(domain.share),
        }


def _table(rows: Iterable[Row]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for row in rows:
        if not table.columns:
            for name in row:
                justify: Literal["left", "right"] = "left" if name == next(iter(row)) else "right"
                table.add_column(name, justify=justify, no_wrap=name not in WRAPPED)
        table.add_row(*map(Text, row.values()))
    return table


def _spread(spread: Spread, factor: float = 1.0) -> str:
    if not spread.count:
        return "none"
    median, p95, largest = (value * factor for value in (spread.median, spread.p95, spread.max))
    return f"{median:.1f} ms in the median, 95 % within {p95:.1f} ms, at most {largest:.1f} ms"


def _by_position(histogram: Sequence[int], steps: int) -> str:
    """Write the shares of steps in which the first tokens were accepted, and of further ones each tenth, in percent."""
    if not steps:
        return "none drafted"
    shares = [f"{100 * number / steps:.0f}" for number in histogram]
    tenths = [f"{shares[position - 1]} at {position}" for position in range(10, len(shares) + 1, 10)]
    return " ".join(shares[:FIRST_POSITIONS]) + " %" + "".join(f", {tenth}" for tenth in tenths)


def _shares(share: Share) -> str:
    named = {name: getattr(share, name) for name in share.__struct_fields__}
    return ", ".join(f"{name.replace('_', ' ')} {value:.1%}" for name, value in named.items() if value)
