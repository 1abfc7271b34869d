"""If these fail, goals are said to be met, or missed, that were not."""

import pytest
from msgspec.structs import replace

from memspec_actors.bench.methods_report import best_speedup, fastest, losses, scalars
from tests.bench.paper.findings import methods


def test_every_figure_with_a_goal_is_read_off_the_comparison() -> None:
    assert scalars(methods()) == pytest.approx(
        {
            "adasd over assistedgen": 1.25,
            "typical over assistedgen": 1.3 / 1.2,
            "adasd: accuracy lost": 0.1,
            "typical: accuracy lost": 0.1,
            "gen-only with memspec": 1.24 * 0.9,  # mixed prompts, with the configured policy, not the general draft
            "gain-only with memspec": 1.3 * 0.9,
        }
    )


def test_the_best_data_set_is_none_on_which_the_text_has_become_wrong() -> None:
    """Nonsense is decoded fast."""
    rows = [row for row in methods().rows if row.policy != "general-static"]
    base = [row for row in rows if row.method == "vanilla"]
    wrong = [row for row in rows if row.method == "adasd"]
    assert best_speedup(wrong, base) == 0.0
    right = replace(wrong[1], quality=replace(wrong[1].quality, task_accuracy=0.94))
    assert best_speedup([wrong[0], right], base) == pytest.approx(1.35)
    unknown = [replace(row, quality=replace(row.quality, task_accuracy=None)) for row in wrong]
    assert best_speedup(unknown, base) == pytest.approx(1.5)


def test_what_a_method_loses_is_told_by_data_set() -> None:
    """The general draft's rows, which count for nothing else, would give a wrong text's speed."""
    assert fastest(methods(), "adasd").dataset == "law"
    assert losses(methods(), "adasd") == pytest.approx({"law": 0.1, "mixed": 0.1})
    with pytest.raises(LookupError):
        fastest(methods(), "bild")


def test_what_was_not_measured_has_no_figure() -> None:
    """Prompts from a file have no answers, and are not mixed."""
    report = methods()
    rows = tuple(replace(row, dataset="file") for row in report.rows)
    found = scalars(replace(report, accuracy={}, rows=rows, geomean={"vanilla": 1.0}))
    assert not [name for name in found if "accuracy" in name or "memspec" in name or "over" in name]
