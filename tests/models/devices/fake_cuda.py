"""What `torch.cuda` promises of streams, events and graphs, with work that runs late, in orders drawn from a seed."""

import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

Work = Callable[[], None]


class FakeEvent:
    def __init__(self, cuda: "FakeCuda", *, blocking: bool) -> None:
        self.cuda, self.blocking, self.done = cuda, blocking, False

    def record(self) -> None:
        self.cuda.now.put(self._finish)

    def synchronize(self) -> None:
        assert self.blocking, "the processor would spin"
        self.cuda.run_until(lambda: self.done)

    def _finish(self) -> None:
        self.done = True


class FakeStream:
    """Runs its work in order; may wait for another's."""

    def __init__(self, cuda: "FakeCuda") -> None:
        self.cuda = cuda
        self.queue: deque[tuple[Callable[[], bool], Work]] = deque()
        self.num_done = self.num_put = 0
        self.graph: FakeGraph | None = None

    def put(self, work: Work, ready: Callable[[], bool] = lambda: True) -> None:
        if self.graph is not None:
            self.graph.works.append(work)
            return
        self.queue.append((ready, work))
        self.num_put += 1
        self.cuda.run_some()

    def wait_stream(self, other: "FakeStream") -> None:
        assert self.graph is None, "waiting would draw the other stream into the recording"
        upto = other.num_put
        self.put(lambda: None, lambda: other.num_done >= upto)

    def run_next(self) -> bool:
        if not self.queue or not self.queue[0][0]():
            return False
        self.queue.popleft()[1]()
        self.num_done += 1
        return True


class FakeGraph:
    def __init__(self, cuda: "FakeCuda") -> None:
        self.cuda = cuda
        self.works: list[Work] = []

    def capture_begin(self, *, capture_error_mode: str) -> None:
        assert capture_error_mode == "thread_local", "whatever another thread does would end the recording"
        assert self.cuda.now is not self.cuda.default, "the default stream cannot be recorded"
        self.cuda.now.graph = self

    def capture_end(self) -> None:
        self.cuda.now.graph = None
        if self.cuda.fails_to_record:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture\nmore")

    def replay(self) -> None:
        for work in self.works:
            self.cuda.now.put(work)


class FakeCuda:
    """Stands in for the module `torch.cuda`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.default = self.now = FakeStream(self)
        self.streams = [self.default]
        self.fails_to_record = False

    def Stream(self, device: object) -> FakeStream:  # noqa: N802 - torch's name
        self.streams.append(FakeStream(self))
        return self.streams[-1]

    def Event(self, *, blocking: bool = False) -> FakeEvent:  # noqa: N802
        return FakeEvent(self, blocking=blocking)

    def CUDAGraph(self) -> FakeGraph:  # noqa: N802
        return FakeGraph(self)

    def default_stream(self, device: object) -> FakeStream:
        return self.default

    @contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        before, self.now = self.now, stream
        try:
            yield
        finally:
            self.now = before

    @contextmanager
    def device(self, device: object) -> Iterator[None]:
        yield

    def run_some(self) -> None:
        for _ in range(self._random.randrange(4)):
            self._random.choice(self.streams).run_next()

    def run_until(self, done: Callable[[], bool]) -> None:
        while not done():
            assert any(stream.run_next() for stream in self._random.sample(self.streams, len(self.streams))), "stuck"

    def synchronize(self) -> None:
        self.run_until(lambda: not any(stream.queue for stream in self.streams))


class FakeMemory:
    """Memory of the device: what is done to it is done by the stream of the moment."""

    def __init__(self, cuda: FakeCuda, memory: Tensor) -> None:
        self._cuda, self._memory = cuda, memory

    def __getitem__(self, part: slice) -> "FakeMemory":
        return FakeMemory(self._cuda, self._memory[part])

    def copy_(self, host: Tensor, *, non_blocking: bool) -> None:
        assert non_blocking, "the loading thread would wait for each copy"
        self._cuda.now.put(lambda: self._run(host))

    def _run(self, host: Any) -> None:
        self._memory.copy_(host)
