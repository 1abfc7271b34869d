"""A small typed actor runtime on asyncio queues and anyio; knows no models."""

from memspec_actors.runtime.actor import Actor
from memspec_actors.runtime.envelope import Envelope, current_trace_id, new_trace_id, tracing
from memspec_actors.runtime.events import Crashed, DeadLetter, Failed, Restarted, RuntimeEvent
from memspec_actors.runtime.mailbox import Mailbox, MailboxPolicy
from memspec_actors.runtime.ref import ActorRef
from memspec_actors.runtime.restart import RestartPolicy
from memspec_actors.runtime.supervisor import ActorSystem
from memspec_actors.runtime.workers import Workers

__all__ = [
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
