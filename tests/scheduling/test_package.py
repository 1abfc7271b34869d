"""Decisions about drafts are pure."""

import pkgutil
import subprocess
import sys

from memspec_actors import scheduling


def test_decisions_import_no_tensors_and_no_event_loop() -> None:
    """`memspec --help` would take seconds, and a decision could no longer be tried without the actors around it."""
    modules = [f"{scheduling.__name__}.{module.name}" for module in pkgutil.iter_modules(scheduling.__path__)]
    unwanted = "{'torch', 'transformers', 'scipy', 'asyncio', 'anyio'} & set(sys.modules)"
    script = f"import sys; {'; '.join(f'import {module}' for module in modules)}; print({unwanted})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
