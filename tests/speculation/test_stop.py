"""Stop rules."""

import subprocess
import sys

import pytest

from memspec_actors.errors import ConfigError
from memspec_actors.speculation.stop import stop_rule


@pytest.mark.parametrize("k", [0, 1, 5])
def test_fixed_drafts_k_tokens(k: int) -> None:
    """A fixed draft would be longer or shorter than configured."""
    rule = stop_rule(f"fixed:{k}")
    num_drafted = 0
    while num_drafted < rule.max_tokens:
        num_drafted += 1
        if not rule.keep_drafting(num_drafted, 0.0):
            break
    assert num_drafted == rule.max_tokens == k


@pytest.mark.parametrize("spec", ["", "fixed", "fixed:", "fixed:-1", "fixed:2.5", "fixed:x", "fixed:²", "entropi", "5"])
def test_any_other_spec_is_refused_with_its_value(spec: str) -> None:
    """A misspelt stop rule would run as another one, or fail far from its cause."""
    with pytest.raises(ConfigError, match=rf"stop is '{spec}'; known rules: fixed:K"):
        stop_rule(spec)


@pytest.mark.parametrize("module", ["commit", "statistics", "stop"])
def test_what_the_command_line_needs_does_not_import_torch(module: str) -> None:
    """`memspec --help`, or reading an event log, would wait seconds for torch."""
    code = f"import sys, memspec_actors.speculation.{module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
