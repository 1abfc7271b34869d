"""What the daemon's endpoints share: the engine once it is open, and where the daemon stands."""

import time
from pathlib import Path
from typing import Literal

import anyio
from starlette.requests import HTTPConnection

from memspec_actors.config import Config, zoo_name
from memspec_actors.daemon.feed import EventFeed
from memspec_actors.daemon.generations import Generations
from memspec_actors.daemon.http.refusals import Refusal
from memspec_actors.daemon.metrics import Metrics
from memspec_actors.engine import MemSpec
from memspec_actors.hub import hub_model
from memspec_actors.protocols.events import Event

__all__ = ["Phase", "Service"]

Phase = Literal["loading", "ok", "stopping"]
MAX_EVENT_READERS = 64  # each gets every event


class Service:
    """Serve one engine, from before it is open until after it is closed."""

    def __init__(self, config: Config) -> None:
        self.engine_config = config
        self.config = config.serve
        self.max_body_bytes = config.serve.max_body_bytes
        self.model_name = config.serve.model_name or _name_of(config.target.model)
        self.created = int(time.time())
        self.generations = Generations(config.serve)
        self.metrics = Metrics(lambda: self.generations.num_open)
        self.feed = EventFeed()
        self.num_event_readers = 0
        self._engine: MemSpec | None = None
        self._serving: anyio.CancelScope | None = None

    @classmethod
    def of(cls, connection: HTTPConnection) -> "Service":
        """Return the service that a request came to."""
        service = connection.app.state.service
        assert isinstance(service, cls)
        return service

    @property
    def phase(self) -> Phase:
        if self.generations.draining:
            return "stopping"
        return "loading" if self._engine is None else "ok"

    @property
    def engine(self) -> MemSpec:
        """The engine. Raises Refusal while it is not open."""
        if self._engine is None:
            raise Refusal(503, "the models are being loaded; try again later", code="loading")
        return self._engine

    async def run(self, engine: MemSpec) -> None:
        """Serve requests with an open engine until `close`. Raises SystemFailed if the engine ends by itself."""
        self._engine = engine
        with anyio.CancelScope() as self._serving:
            raise await engine.wait_failed()

    def close(self) -> bool:
        """Let go of the engine; return False if there is none yet."""
        if self._serving is None:
            return False
        self._serving.cancel()
        return True

    def observe(self, event: Event) -> None:
        """Take in what happens in the engine."""
        self.feed.add(event)
        self.metrics.observe(event)

    def admit_event_reader(self) -> None:
        """Give somebody a place who follows the events, until `event_reader_left`. Raises Refusal if there is none."""
        if self.num_event_readers >= MAX_EVENT_READERS:
            raise Refusal(503, f"{MAX_EVENT_READERS} others read the events already; try again later", code="too_many")
        self.num_event_readers += 1

    def event_reader_left(self) -> None:
        """Take the place back."""
        self.num_event_readers -= 1

    def drain(self) -> None:
        """Take no more requests, and let those go who only look on."""
        self.generations.draining = True
        self.feed.close()

    def check_model(self, name: str) -> None:
        """Raise Refusal for another model than the one that is served."""
        if name != self.model_name:
            message = f"model {name!r} is not served here; the model is {self.model_name!r}"
            raise Refusal(404, message, param="model", code="model_not_found")


def _name_of(model: str) -> str:
    if zoo_name(model) is not None:
        return "memspec-zoo"
    on_hub = hub_model(model)
    return Path(model).name if on_hub is None else on_hub.name
