"""One page of the papers' evaluations: our figures beside the paper's, goals met and missed, as HTML and Markdown.

Reads NAME.json of every study in a folder, as `python bench/NAME.py --json FOLDER/NAME.json` writes them; what is not
there is on the page as missing. With `--quick` the studies are run first, with little work: about 6 minutes. Pictures
need `memspec-actors[plots]`.
"""

import argparse
import subprocess
import sys
from functools import partial
from pathlib import Path

from memspec_actors.bench.paper.evaluation import STUDIES
from memspec_actors.bench.paper.finding import read_finding
from memspec_actors.bench.paper.page import to_html, to_markdown
from memspec_actors.bench.paper.pictures import picture
from memspec_actors.bench.paper.report import compose
from memspec_actors.cli.exit_codes import exit_code_of
from memspec_actors.errors import MemSpecError, UsageError
from memspec_actors.output_files import make_directory, write_whole

SCRIPTS = Path(__file__).parent
PART_OF_THROUGHPUT = ("breakdown", "components", "latency")


def run_quickly(folder: Path) -> None:
    """Run every study with little work, the ones that throughput's runs serve from its file."""
    make_directory(folder)
    for study in STUDIES:
        source = ["--from", str(folder / "throughput.json")] if study.name in PART_OF_THROUGHPUT else []
        print(f"{study.name} …", file=sys.stderr)
        script, target = SCRIPTS / f"{study.name}.py", folder / f"{study.name}.json"
        command = [sys.executable, str(script), "--quick", "--json", str(target), *source]
        if code := subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
            raise MemSpecError(f"bench/{script.name} ended with exit code {code}; what it says is above")


def main(arguments: argparse.Namespace) -> None:
    if arguments.quick:
        run_quickly(arguments.folder)
    elif not arguments.folder.is_dir():
        raise UsageError(f"there is no directory {arguments.folder}; run studies with --json there, or give --quick")
    files = {study.name: arguments.folder / f"{study.name}.json" for study in STUDIES}
    findings = {name: read_finding(path) for name, path in files.items() if path.exists()}
    report = compose(findings)
    pictures = {name: drawn for name, finding in findings.items() if (drawn := picture(finding)) is not None}
    for name, text in (("report.html", to_html(report, pictures)), ("report.md", to_markdown(report))):
        write_whole(arguments.folder / name, text.encode())
    print(", ".join(f"{number} goals {what}" for what, number in report.counts.items()))
    print(arguments.folder / "report.html")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, nargs="?", default=Path("results"), help="where the files are, and the page"
    )
    parser.add_argument("--quick", action="store_true", help="run every study first, with little work")
    if code := exit_code_of(partial(main, parser.parse_args())):
        sys.exit(code)
