"""The examples are what they say they are."""

import shlex
from pathlib import Path

import pytest

from memspec_actors import Config
from memspec_actors.cli import main
from memspec_actors.models.kernels.int4 import int4_works
from memspec_actors.models.kernels.int8 import int8_works

EXAMPLES = Path(__file__).parent.parent / "examples"
CONFIGURATIONS = sorted(EXAMPLES.glob("*.toml"))


def comments(path: Path) -> list[str]:
    """Return the lines of the comment that the file begins with."""
    head = path.read_text(encoding="utf-8").split("\n\n")[0]
    return [line.removeprefix("#").removeprefix(" ") for line in head.splitlines()]


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
@pytest.mark.skipif(
    not (int4_works() and int8_works()), reason="this torch has no kernels for codes: weights are wider"
)
def test_the_memory_plan_in_the_comments_is_what_drafts_check_prints(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody would buy a device by it."""
    lines = comments(path)
    start = next(i for i, line in enumerate(lines) if line.startswith("memspec drafts check "))
    monkeypatch.chdir(EXAMPLES)
    assert main(shlex.split(lines[start])[1:]) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == lines[start + 2 :]
    assert path.name in lines[start]


@pytest.mark.parametrize(
    ("name", "hidden", "inner", "kv", "layers", "vocab"),
    [
        ("Llama-2-7B-GPTQ", 4096, 11008, 4096, 32, 32000),
        ("Qwen2.5-7B-Instruct-GPTQ-Int4", 3584, 18944, 512, 28, 152064),
    ],
)
@pytest.mark.skipif(not int4_works(), reason="this torch has no kernel for four bits: weights are wider")
def test_four_bits_take_what_the_format_says(
    name: str, hidden: int, inner: int, kv: int, layers: int, vocab: int
) -> None:
    """A plan that took every weight for four bits would miss the embedding, the output layer, scales and zeros."""
    from memspec_actors.models.checkpoints.checkpoint import Checkpoint
    from memspec_actors.models.weights.plan import LoadPlan

    shapes = [(hidden, hidden)] * 2 + [(kv, hidden)] * 2 + [(inner, hidden)] * 2 + [(hidden, inner)]  # (out, in)
    weights = layers * sum(rows * columns for rows, columns in shapes)
    groups = layers * sum(rows * columns // 128 for rows, columns in shapes)
    inputs = layers * sum(columns for _, columns in shapes)
    ends = 2 * vocab * hidden * 2
    plan = LoadPlan.of(Checkpoint.describe(EXAMPLES / "models" / name), "auto", private=True)
    in_file = weights // 2 + groups * 2 + groups // 2 + inputs * 4 + ends  # codes, scales, zeros, g_idx, 16-bit ends
    assert plan.file_nbytes == pytest.approx(in_file, rel=1e-3)  # norms and biases are all else
    assert plan.nbytes == pytest.approx(weights // 2 + groups * 4 + ends, rel=1e-3)  # a scale and an offset per group


def test_both_set_ups_of_the_paper_are_there() -> None:
    for path in CONFIGURATIONS:
        config = Config.load(path)
        assert [draft.name for draft in config.drafts] == ["general", "code", "math", "law", "medical"]
        assert config.memory.capacity == 2
    assert len(CONFIGURATIONS) == 2
