"""Write random GPTQ checkpoints with plain loops, from the format's description alone; and what they stand for."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

PARTS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class Variant:
    """One kind of GPTQ checkpoint."""

    group_size: int = 32
    version: int = 1
    sym: bool = True
    desc_act: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """What quantize_config.json says of it."""
        fields = {"bits": 4, "group_size": self.group_size, "desc_act": self.desc_act, "sym": self.sym}
        return fields if self.version == 1 else {**fields, "checkpoint_format": "gptq_v2", "quant_method": "gptq"}


def pack(values: list[list[int]]) -> Tensor:
    """Pack rows of eight 4-bit values each into one int32 per row entry: [8 * n][m] -> (n, m)."""
    packed = []
    for start in range(0, len(values), 8):
        row = []
        for column in range(len(values[0])):
            word = 0
            for index in range(8):
                word |= values[start + index][column] << (4 * index)
            row.append(word)
        packed.append(row)
    return torch.from_numpy(np.array(packed, dtype=np.uint32).view(np.int32).copy())


def random_weight(rng: random.Random, rows: int, columns: int, variant: Variant) -> tuple[dict[str, Tensor], Tensor]:
    """Return the tensors that stand for a random weight (rows out, columns in), and that weight."""
    size = columns if variant.group_size == -1 else variant.group_size
    groups = [index // size for index in range(columns)]
    if variant.desc_act:
        rng.shuffle(groups)
    num_groups = -(-columns // size)
    codes = [[rng.randrange(16) for _ in range(rows)] for _ in range(columns)]
    zeros = [[8 if variant.sym else rng.randrange(16) for _ in range(rows)] for _ in range(num_groups)]
    scales = torch.tensor([[0.01 + 0.02 * rng.random() for _ in range(rows)] for _ in range(num_groups)]).half()
    exact = scales.tolist()
    weight = [[exact[groups[k]][n] * (codes[k][n] - zeros[groups[k]][n]) for k in range(columns)] for n in range(rows)]
    stored = [[(zero - 1) % 16 if variant.version == 1 else zero for zero in row] for row in zeros]
    tensors = {
        "qweight": pack(codes),
        "qzeros": pack([list(column) for column in zip(*stored, strict=True)]).t().contiguous(),
        "scales": scales,
        "g_idx": torch.tensor(groups, dtype=torch.int32),
    }
    return tensors, torch.tensor(weight)


def write_gptq(directory: Path, config: Any, variant: Variant, *, seed: int = 0) -> tuple[Path, Any]:
    """Write a random GPTQ checkpoint; return its directory and transformers' float32 model of what it stands for."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).eval()
    stored: dict[str, Tensor] = {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            base = name.removesuffix(".weight")
            if base.endswith(PARTS):
                tensors, weight = random_weight(rng, parameter.shape[0], parameter.shape[1], variant)
                stored.update({f"{base}.{part}": tensor for part, tensor in tensors.items()})
                parameter.copy_(weight)
                continue
            parameter.normal_(1.0 if "norm" in name else 0.0, 0.3 if parameter.dim() == 1 else 0.2)
            stored[name] = parameter.half().clone()
            parameter.copy_(stored[name])
    config.save_pretrained(directory)
    fields = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**fields, "architectures": [type(model).__name__]}))
    (directory / "quantize_config.json").write_text(json.dumps(variant.fields))
    save_file(stored, directory / "model.safetensors", metadata={"format": "pt"})
    return directory, model
