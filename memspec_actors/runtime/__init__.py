"""A small typed actor runtime on asyncio queues and anyio; knows no models.

Each module imports only from the lines above its own:

    envelope, events           what travels through a mailbox; what the runtime tells its observer
    mailbox                    bounded: some messages replace their predecessors, no other is ever dropped
    actor, ref                 the base of all actors; the handle by which everybody else reaches one
    restart                    how often an actor may crash, and how long it then waits
    supervised                 one actor and its lives
    closed_loops, onlookers    what is left on a loop that was closed too early; listeners that may fail
    supervisor                 the system of actors: started in order, kept alive, stopped in reverse
    workers, held              threads for work that would block; things handed on a moment later
    testing                    virtual time, with tasks interleaved by a seed
"""

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
