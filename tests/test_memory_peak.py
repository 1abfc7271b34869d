"""Memory is what the plan says."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).parent.parent / "bench" / "memory_peak.py"


@pytest.mark.skipif(torch.version.cuda is not None, reason="the stated base is that of a CPU build of torch")
def test_the_peak_of_a_fresh_process_is_the_plan_within_a_tenth() -> None:
    """On a small device the process would be killed, or memory that drafts could have would lie idle."""
    run = subprocess.run(
        [sys.executable, str(BENCH), "--max-new-tokens", "48"], check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
