"""What is scripted or traced computes what the module computes, and so it does where TorchScript is turned off."""

import pytest
import torch
from torch import nn

from memspec_actors.models.kernels.script import as_written, outside_python, traced


@pytest.mark.parametrize("enabled", [True, False])
def test_a_trace_computes_what_the_module_does(enabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under ``PYTORCH_JIT=0``, as debuggers want it, no predictor would open."""
    monkeypatch.setattr("torch.jit._state._enabled.enabled", enabled)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    run = traced(module, torch.zeros(1, 3))
    rows = torch.arange(15.0).view(5, 3)
    with torch.inference_mode(), as_written():
        assert torch.equal(run(rows), module(rows))
    assert isinstance(run, nn.Module) != enabled


def test_a_module_without_source_runs_in_python() -> None:
    """Installed as bytecode only, as bundlers of applications do, no model could be opened."""
    names: dict[str, type[nn.Module]] = {}
    code = "class Twice(torch.nn.Module):\n    def forward(self, x: torch.Tensor) -> torch.Tensor: return 2 * x"
    exec(code, {"torch": torch, "__name__": __name__}, names)
    module = names["Twice"]()
    assert outside_python(module) is module and module(torch.tensor(3)) == 6
