"""How an audit looks on a terminal."""

from rich.table import Table
from rich.text import Text

from memspec_actors.cli.output import wide_console
from memspec_actors.telemetry.audit import Audit

__all__ = ["print_audit"]


def print_audit(found: Audit) -> None:
    """Print one line per invariant, then every violation with its records."""
    console = wide_console()
    broken = {violation.invariant for violation in found.violations}
    table = Table(box=None, show_header=False, pad_edge=False)
    for each in found.invariants:
        verdict, style = ("broken", "red") if each.invariant in broken else ("kept", "green")
        if not each.times and verdict == "kept":
            verdict, style = "open", "yellow"  # nothing in the log decides it
        table.add_row(Text(verdict, style=style), str(each.invariant), Text(each.rule), Text(f"{each.times} checks"))
    console.print(table)
    for violation in found.violations:
        place = f"{violation.file}:{violation.line}" if violation.file else f"record {violation.seqs[-1]}"
        console.print(Text(f"\n{place}: invariant {violation.invariant}: {violation.what}", style="red"))
        for record in violation.records:
            console.print(Text(f"  {record}"))
    console.print(Text(_coverage(found), style="dim"))


def _coverage(found: Audit) -> str:
    parts = [f"{found.checked} records of {found.runs} run{'s' if found.runs > 1 else ''}"]
    parts += [] if found.from_start else ["the beginning is not in the log"]
    named = {"missing": found.missing, "skipped lines": found.skipped, "unknown": found.unknown}
    parts += [f"{number} {name}" for name, number in named.items() if number]
    if found.exempt_waits:
        parts.append(f"{found.exempt_waits} waits that inline prediction or mab-sync ask for")
    return "; ".join(parts)
