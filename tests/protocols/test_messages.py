"""The catalogue of messages tells the truth about who receives what."""

import inspect
from typing import get_args

from memspec_actors.protocols import messages
from memspec_actors.protocols.messages import Message

NAMES = ("DecoderMessage", "PredictorMessage", "CacheManagerMessage", "LoaderMessage", "VerifierStatsMessage")
UNIONS = {name: get_args(getattr(messages, name)) or (getattr(messages, name),) for name in NAMES}


def test_every_message_is_received_by_some_actor() -> None:
    """One that no actor takes would be sent in vain."""
    assert set(Message.__subclasses__()) == {message for union in UNIONS.values() for message in union}


def test_every_message_stands_among_those_of_an_actor_that_receives_it() -> None:
    """Whoever reads what an actor receives would miss it there, and believe that another one receives it."""
    lines = inspect.getsource(messages).splitlines()
    ends = {name: next(i for i, line in enumerate(lines) if line.startswith(f"{name} =")) for name in NAMES}
    for message in Message.__subclasses__():
        begin = lines.index(f"class {message.__name__}(Message, frozen=True):")
        actor = next(name for name in NAMES if ends[name] > begin)
        assert message in UNIONS[actor], f"{message.__name__} stands in {actor}"
