"""Write a report as one page of HTML, pictures inside, or of Markdown."""

from collections.abc import Mapping
from importlib.resources import files

from memspec_actors.bench.paper.report import Report, Section, verdict_table
from memspec_actors.bench.paper.table import Table

__all__ = ["to_html", "to_markdown"]

TITLE = "The papers' evaluations, reproduced"
MISSING = "Missing: there is no file of this study; python bench/{name}.py --json {name}.json writes it."
NOTE = (
    "Our figures are of the embedded models unless a command says otherwise. Gains are over general-static in the "
    "paper's sense, a general draft that is not fine-tuned; the strict figures are over a general draft that had the "
    "same extra training as the specialists. As in the paper, throughput leaves out encoding the prompt and loading "
    "the first draft, with whatever was decoded meanwhile. The paper's figures are means over data sets of one domain "
    "each, as ours by domain are; ours, and the goals, are of mixed prompts. The oracle is oracle-dynamic in the "
    "place of our policy, on replayed texts, which it knows beforehand."
)


def to_markdown(report: Report) -> str:
    """Write the page as Markdown."""
    counts = ", ".join(f"{number} {what}" for what, number in report.counts.items())
    lines = [f"# {TITLE}", "", NOTE, "", f"Goals: {counts}.", ""]
    for section in report.sections:
        lines += [f"## {section.study.title}", "", section.study.question, "", *_body(section)]
    return "\n".join(lines).rstrip() + "\n"


def to_html(report: Report, pictures: Mapping[str, str]) -> str:
    """Write the page as HTML; ``pictures`` holds SVG text by study."""
    import jinja2

    source = (files("memspec_actors.bench.paper") / "page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(source)
    return template.render(
        title=TITLE, note=NOTE, missing=MISSING, report=report, pictures=pictures, verdict_table=verdict_table
    )


def _body(section: Section) -> list[str]:
    if section.is_missing:
        lines = [f"**{MISSING.format(name=section.study.name)}**", ""]
    else:
        lines = [*(f"- {each}" for each in section.circumstances), ""]
    lines += _table(verdict_table(section.verdicts))
    for table in section.tables:
        lines += [f"{table.caption}:", "", *_table(table)]
    return lines


def _table(table: Table) -> list[str]:
    rows = [table.head, tuple("---" for _ in table.head), *table.rows]
    return [*(f"| {' | '.join(cells)} |" for cells in rows), ""]
