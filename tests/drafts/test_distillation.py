"""Distillation brings a draft closer to its target, and an interruption changes nothing."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from msgspec.structs import replace
from safetensors.torch import load_file

from memspec_actors import zoo
from memspec_actors.drafts import student
from memspec_actors.drafts.answers import Answer
from memspec_actors.drafts.distillation import distill, split_prompts
from memspec_actors.drafts.settings import DistillReport, DistillSettings
from memspec_actors.drafts.student import Lesson, distillation_loss
from memspec_actors.errors import ConfigError, InvalidLogits, UsageError
from memspec_actors.predictor.prompts import Prompt, domain_prompts

PROMPTS = domain_prompts("law", "train", 4)
HELD_OUT = domain_prompts("law", "eval", 2)
SETTINGS = DistillSettings(
    target=str(zoo.path("target")),
    draft=str(zoo.path("general")),
    max_new_tokens=24,
    epochs=12,
    batch_tokens=120,
    learning_rate=0.01,
)


@pytest.fixture(autouse=True)
def threads() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[DistillReport, Path]:
    """Distill without any interruption; the prompts measured on are among those that are learnt."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole") / "draft"
    return distill(SETTINGS, PROMPTS, PROMPTS[:2], out), out


def test_a_draft_learns_what_it_is_taught(whole: tuple[DistillReport, Path]) -> None:
    """Training that does not reach the model, or reaches it shifted by a token, would pass unnoticed."""
    report, _ = whole
    assert report.accepted_after["law"] > report.accepted_before["law"] + 0.3
    assert report.num_prompts == 4
    assert report.accepted_before.keys() == report.accepted_after.keys() == {"all", "law"}


def test_the_outcome_is_a_model_directory_with_a_card(whole: tuple[DistillReport, Path]) -> None:
    """The draft could not be named in memspec.toml."""
    report, out = whole
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= {
        f.name for f in out.iterdir()
    }
    assert load_file(out / "model.safetensors").keys() == load_file(zoo.path("general") / "model.safetensors").keys()
    card = (out / "README.md").read_text()
    assert f"| law | {report.accepted_before['law']:.2f} | {report.accepted_after['law']:.2f} |" in card
    assert f"{report.num_tokens} tokens" in card


class Interrupt:
    """Be interrupted at the n-th report of a stage."""

    def __init__(self, stage: str, at: int) -> None:
        self.stage, self.at = stage, at

    def __call__(self, what: str, done: int, total: int) -> None:
        if (what, done) == (self.stage, self.at):
            raise KeyboardInterrupt


def test_interruptions_change_nothing(
    whole: tuple[DistillReport, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done would be done again, or an interrupted draft would be another one."""
    monkeypatch.setattr(student, "SAVE_EVERY_S", 0.0)
    out = tmp_path / "draft"
    for interrupt in (Interrupt("target's answers to learn", 2), Interrupt("training", 1), Interrupt("training", 4)):
        with pytest.raises(KeyboardInterrupt):
            distill(SETTINGS, PROMPTS, PROMPTS[:2], out, interrupt)
        with (out / "distillation" / "answers.jsonl").open("ab") as file:
            file.write(b"[[1,2],[3")  # as a kill in the middle of a write leaves it
    seen: list[tuple[str, int]] = []
    report = distill(SETTINGS, PROMPTS, PROMPTS[:2], out, lambda what, done, total: seen.append((what, done)))
    assert next(done for what, done in seen if what == "training") == 4
    assert not [what for what, _ in seen if what == "target's answers to learn"]
    assert report == whole[0]
    left, right = (load_file(directory / "model.safetensors") for directory in (out, whole[1]))
    assert all(torch.equal(left[name], right[name]) for name in right)


def test_a_finished_run_is_not_repeated(whole: tuple[DistillReport, Path]) -> None:
    seen: list[str] = []
    again = distill(SETTINGS, PROMPTS, PROMPTS[:2], whole[1], lambda what, done, total: seen.append(what))
    assert (again, seen) == (whole[0], [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: (replace(SETTINGS, seed=1), PROMPTS), "was begun with other"),
        (lambda: (SETTINGS, PROMPTS[1:]), "was begun with other"),
    ],
)
def test_another_run_does_not_go_on_in_its_directory(
    whole: tuple[DistillReport, Path], change: Callable[[], tuple[DistillSettings, list[Prompt]]], message: str
) -> None:
    """A draft would be half of one kind and half of another."""
    settings, prompts = change()
    with pytest.raises(ConfigError, match=message):
        distill(settings, prompts, PROMPTS[:2], whole[1])


def test_a_draft_that_can_read_nothing_is_refused(tmp_path: Path) -> None:
    """An untrained draft would be written as a trained one."""
    short = Path(shutil.copytree(zoo.path("general"), tmp_path / "short"))
    fields = json.loads((short / "config.json").read_text()) | {"max_position_embeddings": 4}
    (short / "config.json").write_text(json.dumps(fields))
    with pytest.raises(UsageError, match="can read none of the target's answers"):
        distill(replace(SETTINGS, draft=str(short)), PROMPTS[:1], HELD_OUT[:1], tmp_path / "out")


@pytest.mark.parametrize("torn", ["asked.json", "report.json"])
def test_a_disk_that_was_full_is_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: str) -> None:
    """Half a file would say for ever that other settings were asked for, or that the work was done."""
    write_bytes = Path.write_bytes

    def fill(path: Path, content: bytes) -> int:
        if path.stem == torn.removesuffix(".json"):
            write_bytes(path, content[:5])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_bytes(path, content)

    settings = replace(SETTINGS, max_new_tokens=2, epochs=1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fill)
        with pytest.raises(OSError, match="No space"):
            distill(settings, PROMPTS[:1], HELD_OUT[:1], tmp_path / "out")
    assert distill(settings, PROMPTS[:1], HELD_OUT[:1], tmp_path / "out").num_prompts == 1


def test_a_training_that_comes_to_nothing_is_told(tmp_path: Path) -> None:
    """A draft of NaNs would be written, as if it were one."""
    settings = replace(SETTINGS, max_new_tokens=8, learning_rate=1e30)
    with pytest.raises(InvalidLogits, match=r"loss is (nan|inf).*learning rate"):
        distill(settings, PROMPTS[:2], HELD_OUT[:1], tmp_path / "out")
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_no_model_is_overwritten(tmp_path: Path) -> None:
    """The draft that training begins from, or any other, would be lost."""
    precious = Path(shutil.copytree(zoo.path("general"), tmp_path / "precious"))
    for settings in (SETTINGS, replace(SETTINGS, draft=str(precious))):
        with pytest.raises(ConfigError, match="of its own"):
            distill(settings, PROMPTS, HELD_OUT, precious)


def test_the_loss_is_cross_entropy_and_divergence() -> None:
    """A draft would be drawn to something else than its target."""
    generator = torch.Generator().manual_seed(1)
    logits, taught = (torch.randn(7, 11, generator=generator) * 2 for _ in range(2))
    labels = torch.randint(11, (7,), generator=generator)
    everything = Lesson(taught, torch.arange(11).expand(7, 11))
    entropy = F.cross_entropy(logits, labels)
    divergence = F.kl_div(logits.log_softmax(-1), taught.log_softmax(-1), log_target=True, reduction="batchmean")
    got = distillation_loss(logits, labels, everything, logits_weight=0.25)
    torch.testing.assert_close(got, 0.75 * entropy + 0.25 * divergence)
    torch.testing.assert_close(distillation_loss(logits, labels, None, logits_weight=0.25), entropy)
    best = taught.topk(3, dim=-1)
    expected = 0.0
    for row in range(7):
        target = {int(i): float(v) for i, v in zip(best.indices[row], best.values[row].softmax(-1), strict=True)}
        draft = logits[row].softmax(-1)
        expected += sum(p * (torch.tensor(p).log() - draft[i].log()).item() for i, p in target.items()) / 7
    got = distillation_loss(logits, labels, Lesson(best.values, best.indices), logits_weight=1.0)
    assert got.item() == pytest.approx(expected, rel=1e-5)


def test_answers_end_where_the_draft_can_read_no_further() -> None:
    """An id beyond the draft's vocabulary would be looked up, or a position that it does not have."""
    from memspec_actors.drafts.distillation import _readable

    answer = Answer((1, 2, 3), (4, 50, 5))
    assert _readable(answer, 100, 100) == answer
    assert _readable(answer, 50, 100).output_ids == (4,)
    assert _readable(answer, 100, 5).output_ids == (4, 50)
    assert _readable(Answer((1, 60), (4,)), 50, 100).output_ids == ()


def test_held_out_prompts_are_not_learnt() -> None:
    """The gain would be measured on what was learnt by heart."""
    prompts = [Prompt(f"p{i % 8}") for i in range(16)]
    learnt, measured = split_prompts(prompts, 3, seed=0)
    assert (len(learnt), len(measured)) == (5, 3)
    assert {each.prompt for each in (*learnt, *measured)} == {f"p{i}" for i in range(8)}
    with pytest.raises(UsageError, match="there are 8 different prompts"):
        split_prompts(prompts, 8, seed=0)


OUT_OF_RANGE = {
    "epochs": 0, "threads": 2000, "logits_weight": 1.5, "top_k": 1, "temperature": -1.0, "learning_rate": 0.0
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE.items())
def test_numbers_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{name} is {value}"):
        replace(SETTINGS, **{name: value})
