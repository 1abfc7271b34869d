"""The runtime's public face and what importing it costs."""

import subprocess
import sys

import memspec_actors.runtime as runtime


def test_public_names_are_pinned() -> None:
    """A name that users import would vanish, or an internal one would become a promise, unnoticed."""
    assert sorted(runtime.__all__) == [
        "Actor",
        "ActorRef",
        "ActorSystem",
        "Crashed",
        "DeadLetter",
        "Envelope",
        "Failed",
        "Mailbox",
        "MailboxPolicy",
        "RestartPolicy",
        "Restarted",
        "RuntimeEvent",
        "Workers",
        "current_trace_id",
        "new_trace_id",
        "tracing",
    ]
    assert all(hasattr(runtime, name) for name in runtime.__all__)


def test_runtime_knows_no_models() -> None:
    """Importing the runtime would take the seconds that torch takes, or tie it to one kind of work."""
    code = "import sys, memspec_actors.runtime.testing; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "anyio" in loaded
    assert not {"torch", "transformers", "scipy", "numpy"} & set(loaded)
    assert not [name for name in loaded if name.startswith(("memspec_actors.models", "memspec_actors.actors"))]
