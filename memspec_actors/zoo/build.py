"""Build the embedded models: named, seeded, resumable stages from nothing to Hugging Face directories."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import torch
from tokenizers import Tokenizer

from memspec_actors.errors import UsageError
from memspec_actors.zoo.batches import Document, Source, read_texts
from memspec_actors.zoo.checkpoint import export_network
from memspec_actors.zoo.distill import Answers, load_answers, save_answers, target_answers
from memspec_actors.zoo.induction import plant_induction
from memspec_actors.zoo.network import Network, Shape
from memspec_actors.zoo.tokenizer import VOCAB_SIZE, train_tokenizer, write_tokenizer
from memspec_actors.zoo.training import Schedule, StageProgress, grow, train
from memspec_actors.zoo.world import DOMAINS

__all__ = ["GENERAL", "QUICK", "STAGES", "STRICT", "Recipe", "build"]

GENERAL = DOMAINS[0]
SPECIALISTS = DOMAINS[1:]
STRICT = "general-strict"
STAGES = ("tokenizer", "target-start", "target", "answers", GENERAL, *SPECIALISTS, STRICT)
Report = Callable[[StageProgress], None]


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and budgets of a build; the defaults are those of the shipped weights.

    The target starts with `start_layers` and is grown to `target.layers`. `num_answers` counts the target's answers per
    domain that drafts are trained on, as a share of `answers_share` of their documents; specialists see a share of
    `replay` of all domains.
    """

    target: Shape = Shape(hidden=320, layers=8, heads=5, inner=896, vocab=VOCAB_SIZE)
    start_layers: int = 3
    draft: Shape = Shape(hidden=48, layers=2, heads=2, inner=128, vocab=VOCAB_SIZE)
    start: Schedule = Schedule(tokens=7_800_000, batch_tokens=1024, decay=0.6, floor=0.02)
    grown: Schedule = Schedule(tokens=100_000, batch_tokens=1024, peak=0.00008, decay=1.0)
    base: Schedule = Schedule(tokens=3_000_000, decay=0.6)
    extra: Schedule = Schedule(tokens=6_000_000, decay=0.8)
    num_answers: int = 300
    answers_share: float = 0.3
    replay: float = 0.2
    num_tokenizer_documents: int = 12_000


QUICK = Recipe(
    target=Shape(hidden=64, layers=3, heads=2, inner=96, vocab=512),
    start_layers=2,
    draft=Shape(hidden=64, layers=2, heads=2, inner=32, vocab=512),
    start=Schedule(tokens=6_000),
    grown=Schedule(tokens=2_000),
    base=Schedule(tokens=3_000),
    extra=Schedule(tokens=2_000),
    num_answers=2,
    num_tokenizer_documents=200,
)


def build(
    out: Path,
    *,
    stages: Sequence[str] = STAGES,
    recipe: Recipe | None = None,
    texts: Sequence[Path] = (),
    on_progress: Report = lambda progress: None,
) -> tuple[str, ...]:
    """Run `stages` in order, writing every model to `out/<name>`, and name those that were run.

    A finished stage is skipped and an interrupted one goes on from its last checkpoint (both under `out/stages`). The
    same recipe, machine and number of threads give the same weights. `texts` are mixed into the training of all models.
    Raises UsageError for an unknown stage or one whose predecessor has not been run.
    """
    unknown = [stage for stage in stages if stage not in STAGES]
    if unknown:
        raise UsageError(f"no build stage is called {unknown[0]!r}; stages: {', '.join(STAGES)}")
    (out / "stages").mkdir(parents=True, exist_ok=True)
    builder = _Builder(out, recipe or Recipe(), read_texts(texts), on_progress)
    todo = [stage for stage in STAGES if stage in stages and not builder.result(stage).exists()]
    for stage in todo:
        builder.run(stage)
    return tuple(todo)


class _Builder:
    def __init__(self, out: Path, recipe: Recipe, texts: tuple[str, ...], on_progress: Report) -> None:
        self._out = out
        self._recipe = recipe
        self._texts = texts
        self._on_progress = on_progress

    def result(self, stage: str) -> Path:
        """Give the file whose presence says that `stage` is finished."""
        suffix = {"tokenizer": "json", "answers": "msgpack"}.get(stage, "pt")
        return self._out / "stages" / f"{stage}.{suffix}"

    def run(self, stage: str) -> None:
        torch.manual_seed(zlib.crc32(stage.encode()))
        match stage:
            case "tokenizer":
                self._make_tokenizer()
            case "target-start":
                shape = msgspec.structs.replace(self._recipe.target, layers=self._recipe.start_layers)
                self._train(stage, self._fresh(shape, stage), self._recipe.start, self._source(stage))
            case "target":
                start = self._network("target-start")
                grown = grow(start, self._recipe.target.layers)
                self._train(stage, grown, self._recipe.grown, self._source(stage), torch.bfloat16)
            case "answers":
                self._make_answers()
            case "general":
                fresh = self._fresh(self._recipe.draft, stage)
                self._train(stage, fresh, self._recipe.base, self._draft_source(stage), torch.float32)
            case _:
                general = self._network(GENERAL)
                self._train(stage, general, self._recipe.extra, self._draft_source(stage), torch.float32)

    def _make_tokenizer(self) -> None:
        tokenizer = train_tokenizer(
            num_documents=self._recipe.num_tokenizer_documents, vocab_size=self._recipe.target.vocab
        )
        partial = self.result("tokenizer").with_suffix(".partial")
        tokenizer.save(str(partial))
        partial.replace(self.result("tokenizer"))

    def _make_answers(self) -> None:
        target = self._network("target")
        for parameter in target.parameters():  # answer as the exported weights do
            parameter.data = parameter.data.bfloat16().float()
        save_answers(self.result("answers"), target_answers(target, self._tokenizer(), self._recipe.num_answers))

    def _fresh(self, shape: Shape, stage: str) -> Network:
        network = Network(msgspec.structs.replace(shape, vocab=self._tokenizer().get_vocab_size()))
        plant_induction(network, zlib.crc32(stage.encode()))
        return network

    def _source(self, stage: str) -> Source:
        return Source(seed=f"train:{stage}", extra=self._texts)

    def _draft_source(self, stage: str) -> Source:
        domain = stage if stage in SPECIALISTS else None
        return Source(
            seed=f"train:{stage}",
            domain=domain,
            replay=self._recipe.replay,
            extra=self._texts,
            answers=_of_domain(load_answers(self._need("answers")), domain),
            answers_share=self._recipe.answers_share,
        )

    def _train(
        self,
        stage: str,
        network: Network,
        schedule: Schedule,
        source: Source,
        export_dtype: torch.dtype | None = None,
    ) -> None:
        """Train a network and, with ``export_dtype``, write its directory; only then is the stage finished."""
        checkpoint = self._out / "stages" / f"{stage}.checkpoint"
        train(
            network,
            self._tokenizer(),
            source,
            schedule,
            checkpoint=checkpoint,
            stage=stage,
            on_progress=self._on_progress,
        )
        if export_dtype is not None:
            export_network(network, self._out / stage, export_dtype)
            write_tokenizer(self._tokenizer(), self._out / stage)
        partial = self.result(stage).with_suffix(".partial")
        torch.save({"shape": msgspec.to_builtins(network.shape), "network": network.state_dict()}, partial)
        partial.replace(self.result(stage))
        checkpoint.unlink(missing_ok=True)

    def _network(self, stage: str) -> Network:
        held = torch.load(self._need(stage), weights_only=True)
        network = Network(msgspec.convert(held["shape"], Shape))
        network.load_state_dict(held["network"])
        return network

    def _tokenizer(self) -> Tokenizer:
        tokenizer: Tokenizer = Tokenizer.from_file(str(self._need("tokenizer")))
        return tokenizer

    def _need(self, stage: str) -> Path:
        file = self.result(stage)
        if not file.exists():
            raise UsageError(f"stage {stage!r} has not been built in {self._out}: run it first")
        return file


def _of_domain(answers: Answers, domain: str | None) -> tuple[Document, ...]:
    return tuple(document for name, documents in answers.items() if domain in (None, name) for document in documents)
