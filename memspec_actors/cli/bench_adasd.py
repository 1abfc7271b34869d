"""``memspec bench adasd``: how it runs, and what it keeps and prints."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memspec_actors.cli.output import print_json, progress_bars

if TYPE_CHECKING:
    from memspec_actors.bench.datasets import DataSet
    from memspec_actors.bench.methods_report import MethodsReport
    from memspec_actors.bench.paper.finding import Finding
    from memspec_actors.config import Config

__all__ = ["bench_adasd"]

STARTED_AS = {"__main__.py": ("python", "-m", "memspec_actors"), "adasd.py": ("python", "bench/adasd.py")}


def bench_adasd(
    config: "Config",
    datasets: "Sequence[DataSet]",
    *,
    policy: str | None,
    max_new_tokens: int,
    share: bool,
    quick: bool,
    json: Path | None,
    figure: Path | None,
) -> None:
    """Compare the methods; print tables, or JSON where ``json`` is ``-``."""
    from msgspec.structs import replace

    from memspec_actors.bench.adasd_figure import check_figure, draw
    from memspec_actors.bench.paper.finding import prepare_place, write_finding
    from memspec_actors.cli.method_table import print_methods

    if figure is not None:
        check_figure(figure)
    if json is not None and json != Path("-"):
        prepare_place(json)
    config = replace(config, speculation=replace(config.speculation, share_thresholds=share))
    began = time.perf_counter()
    report = _compare(config, datasets, policy, max_new_tokens)
    finding = _finding(config, report, quick=quick, wall_s=time.perf_counter() - began)
    if figure is not None:
        draw(report, figure)
    if json == Path("-"):
        print_json(finding)
        return
    print_methods(report, finding)
    if json is not None:
        write_finding(json, finding)


def _compare(
    config: "Config", datasets: "Sequence[DataSet]", policy: str | None, max_new_tokens: int
) -> "MethodsReport":
    import logging
    from functools import partial

    import anyio

    from memspec_actors.bench.adasd import compare

    logger = logging.getLogger("memspec_actors")
    level = logger.level
    logger.setLevel(logging.ERROR)  # that methods are lossy is what the table is about
    try:
        with progress_bars() as progress:
            return anyio.run(
                partial(compare, config, datasets, policy=policy, max_new_tokens=max_new_tokens, progress=progress)
            )
    finally:
        logger.setLevel(level)


def _finding(config: "Config", report: "MethodsReport", *, quick: bool, wall_s: float) -> "Finding":
    from memspec_actors.bench.methods_report import scalars
    from memspec_actors.cli.study import Measured, finding_of

    program = Path(sys.argv[0]).name
    learned = "kept from prompt to prompt" if report.share_thresholds else "forgotten with each prompt"
    measured = Measured(
        setting=f"{report.prompts_per_dataset} prompts of each data set, at most {report.max_new_tokens} tokens each; "
        f"what rules learn is {learned}",
        scalars=scalars(report),
        methods=report,
    )
    command = [*STARTED_AS.get(program, (program,)), *sys.argv[1:]]
    return finding_of("adasd", command, config, measured, quick=quick, wall_s=wall_s)
