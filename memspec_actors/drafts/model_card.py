"""Write the model card of a distilled draft."""

from importlib.metadata import version
from pathlib import Path

from memspec_actors.drafts.settings import DistillReport

__all__ = ["write_card"]


def write_card(report: DistillReport, file: Path) -> None:
    """Write ``file``: what the draft was made from and how, and what the target accepts of it, before and after."""
    settings = report.settings
    target, draft = (Path(model).name for model in (settings.target, settings.draft))
    rate = settings.learning_rate or "0.25 / width"
    versions = ", ".join(f"{name} {version(name)}" for name in ("memspec-actors", "torch", "transformers"))
    lines = [
        "---",
        "tags: [speculative-decoding, draft-model, distillation]",
        "---",
        f"# {file.absolute().parent.name}",
        "",
        f"A draft for speculative decoding: `{draft}`, trained on by distillation from its target `{target}`.",
        "",
        "| held-out prompts | accepted before | accepted after |",
        "|---|---|---|",
        *(
            f"| {kind} | {old:.2f} | {report.accepted_after[kind]:.2f} |"
            for kind, old in report.accepted_before.items()
        ),
        "",
        f"Accepted tokens per iteration of {settings.k} drafted, over the target's greedy answers to "
        f"{report.num_held_out} prompts that were not trained on, of at most {settings.max_new_tokens} tokens each.",
        "",
        "## How it was made",
        "",
        f"- Learnt from the target's {_answers(settings.temperature)} answers to {report.num_prompts} prompts: "
        f"{report.num_tokens} tokens, {settings.epochs} times.",
        f"- Loss: {_loss(settings.logits_weight, settings.top_k)}. It ended at {report.loss:.3f} nats per token.",
        f"- AdamW, {settings.batch_tokens} tokens a step, learning rate {rate}, seed {settings.seed}.",
        f"- {versions}.",
        "",
    ]
    file.write_text("\n".join(lines), encoding="utf-8")


def _answers(temperature: float) -> str:
    return f"sampled (temperature {temperature})" if temperature else "greedy"


def _loss(weight: float, top_k: int) -> str:
    divergence = "KL divergence from " + (f"its {top_k} likeliest ids" if top_k else "its whole distribution")
    parts = [(1 - weight, "cross-entropy of the answers"), (weight, divergence)]
    return " + ".join(f"{share:g} * {name}" for share, name in parts if share)
