"""``memspec drafts quantize``: make a 4-bit checkpoint of a draft, or of a target."""

from pathlib import Path
from typing import Annotated

import typer

from memspec_actors.cli.output import JsonOption, circumstances, print_json, progress_bars, wide_console

__all__ = ["quantize"]

CALIBRATION_TOKENS = 2048  # of a text at most


def quantize(
    draft: Annotated[
        str, typer.Option("--from", metavar="D", help='The model: a directory, an id on the hub, or "zoo:NAME".')
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the quantised model goes.")],
    prompts: Annotated[
        str, typer.Option(metavar="SOURCE", help="Texts to calibrate on: a .jsonl or text file, or zoo:SPLIT[:COUNT].")
    ],
    num_prompts: Annotated[int, typer.Option(min=1, help="Calibrate on so many of them at most.")] = 128,
    group_size: Annotated[int, typer.Option(help="Inputs that share a scale: 32, 64, 128, or -1 for all.")] = 128,
    act_order: Annotated[bool, typer.Option("--act-order", help="Quantise the inputs that matter most first.")] = False,
    asymmetric: Annotated[bool, typer.Option("--asymmetric", help="Give each group a zero of its own.")] = False,
    damp: Annotated[float, typer.Option(help="Damp the Hessian by this share of its mean diagonal.")] = 0.01,
    threads: Annotated[int, typer.Option(min=1, help="Compute with so many threads.")] = 1,
    json: JsonOption = False,
) -> None:
    """Quantise a model to 4 bits through auto-gptq. It has to be installed, in an environment of its own."""
    import torch
    from msgspec import to_builtins

    from memspec_actors.drafts.quantisation import QuantiseSettings
    from memspec_actors.drafts.quantisation import quantize as run
    from memspec_actors.loadout import model_directory
    from memspec_actors.models.text.tokenizer import Tokenizer
    from memspec_actors.predictor.collect import encode_prompt
    from memspec_actors.predictor.prompts import read_prompts

    settings = QuantiseSettings(group_size=group_size, act_order=act_order, symmetric=not asymmetric, damp=damp)
    torch.set_num_threads(threads)
    directory = model_directory(draft)
    tokenizer = Tokenizer.open(directory)
    texts = [encode_prompt(tokenizer, prompt.prompt) for prompt in read_prompts(prompts, limit=num_prompts)]
    with progress_bars() as progress:
        report = run(directory, out, [text[:CALIBRATION_TOKENS] for text in texts], settings, progress)
    if json:
        print_json(to_builtins(report) | {"out": str(out)} | circumstances(threads, "float32"))
        return
    sizes = f"{report.nbytes_before / 1e6:.1f} MB before, {report.nbytes_after / 1e6:.1f} MB now"
    wide_console().print(f"wrote {out}: {sizes}", soft_wrap=True)
