"""The engine: the five actors on real models, offered as an async library."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import anyio
import torch

from memspec_actors.admission import Admission
from memspec_actors.assembly import assemble
from memspec_actors.config import Config
from memspec_actors.engine_records import record_runtime, record_start, record_stop
from memspec_actors.errors import SystemFailed
from memspec_actors.loadout import Loadout, open_predictor
from memspec_actors.methods import decoding_alone
from memspec_actors.prompts import Prompt, PromptEncoder
from memspec_actors.protocols.messages import DraftWish, GetStatistics, LoadProgress, SteerDraft
from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.protocols.results import GenerationResult, ResidencySnapshot, Statistics
from memspec_actors.runtime import Failed, RuntimeEvent
from memspec_actors.runtime.onlookers import show
from memspec_actors.speculation.commit import united_end_ids
from memspec_actors.stream import Requests, TextStream
from memspec_actors.telemetry.event_log import EventLog, Listener
from memspec_actors.wiring import wire

__all__ = ["MemSpec", "OnLoad"]

OnLoad = Callable[[str, int, int], None]  # (draft, bytes done, bytes in all)
ASK_TIMEOUT_S = 5.0


class MemSpec:
    """Generate text with the target, sped up by whichever drafts are resident. Make one with `MemSpec.open`.

    Requests are served one after the other, in the order in which they came.
    """

    def __init__(
        self,
        config: Config,
        loadout: Loadout,
        log: EventLog,
        on_load: OnLoad | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.config = config
        self._loadout = loadout
        self._log = log
        self._on_load = on_load
        self._prompts = PromptEncoder(loadout.tokenizer, loadout.num_ids)
        predictor = cache(partial(open_predictor, config, loadout))
        self._admission = Admission(config, loadout, self._prompts, predictor)
        parts = assemble(config, loadout, log, predictor=predictor, on_progress=self._progress)
        self._residency = parts.residency
        self._wired = wire(parts, self._observe)
        self._requests = Requests(self._wired.decoder, loop)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: Config | str | Path | None = None,
        *,
        on_load: OnLoad | None = None,
        on_event: Listener | None = None,
    ) -> "AsyncIterator[MemSpec]":
        """Open an engine: with a Config, a path to ``memspec.toml``, or (None) the embedded models.

        ``on_load`` hears (draft, bytes done, bytes in all) while drafts load, ``on_event`` whatever an event log may
        hold, as it happens; an exception of theirs is logged, and stops nothing. Raises ConfigError, CheckpointError or
        IncompatibleDraft, naming what is wrong and where.
        """
        if not isinstance(config, Config):
            config = Config() if config is None else Config.load(config)
        config = decoding_alone(config)
        torch.set_num_threads(config.target.num_threads)
        async with AsyncExitStack() as stack:
            loadout = await anyio.to_thread.run_sync(Loadout.open, config)
            events_config = config.events
            log = EventLog.open(
                events_config.path,
                level=events_config.level,
                rotate_bytes=events_config.rotate_bytes,
                listener=on_event,
            )
            stack.callback(log.close)
            loop = asyncio.get_running_loop()
            engine = await anyio.to_thread.run_sync(cls, config, loadout, log, on_load, loop)
            for workers in engine._wired.workers:
                stack.callback(workers.close)
            record_start(log, config, loadout)
            stack.callback(record_stop, log, engine._residency, engine._wired.system)
            await stack.enter_async_context(engine._wired.system)
            stack.callback(engine._requests.close)
            yield engine

    def stream(
        self,
        prompt: Prompt,
        *,
        max_new_tokens: int = 128,
        sampling: SamplingParams | None = None,
        policy: str | None = None,
        stop: str | None = None,
        accept: str | None = None,
        method: str | None = None,
        raw: bool = False,
    ) -> TextStream:
        """Return a stream of text chunks; the request is sent when iteration begins.

        ``prompt`` is text or chat messages (``{"role", "content"}``), which go through the chat template if the target
        has one, unless ``raw``; or token ids, taken as they are (`encode_aside` gives them for a text so long that
        encoding it here would hold up the event loop). ``policy``, ``stop`` (draft length), ``accept`` and
        ``method`` (a pair of those two) override the configuration for this request. Raises InvalidRequest,
        ConfigError, and EngineClosed.
        """
        self._requests.check_open()
        request = self._admission.admit(
            prompt,
            max_new_tokens=max_new_tokens,
            sampling=sampling,
            raw=raw,
            policy=policy,
            stop=stop,
            accept=accept,
            method=method,
        )
        return TextStream(self._requests, request)

    async def generate(self, prompt: Prompt, **options: Any) -> GenerationResult:
        """Generate to the end and return the result; takes the options of `stream`."""
        raw = options.pop("raw", False)
        stream = self.stream(await self.encode_aside(prompt, raw=raw), **options)
        async for _ in stream:
            pass
        return stream.result

    def encode(self, prompt: Prompt, *, raw: bool = False) -> tuple[int, ...]:
        """Return the token ids of a prompt as the target sees it. Raises InvalidRequest for one that cannot be used."""
        return self._prompts.encode(prompt, raw=raw)

    def chat_prompt(self, prompt: Prompt) -> str:
        """Return the text that the target sees for a plain prompt or chat messages: wrapped by its chat template."""
        return self._prompts.chat_prompt(prompt)

    async def encode_aside(self, prompt: Prompt, *, raw: bool = False) -> tuple[int, ...]:
        """Return `encode` of a prompt, from a worker thread if it is so long that it would hold up the event loop."""
        return await self._prompts.encode_aside(prompt, raw=raw)

    def token_text(self, token_id: int) -> str:
        """Return the text of one token of the target's."""
        return self._loadout.tokenizer.token_text(token_id)

    @property
    def context(self) -> int:
        """Number of tokens, prompt and text together, that the target takes."""
        return self._loadout.checkpoint.max_positions

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The ids that end a text, unless a request says otherwise."""
        checkpoint, tokenizer = self._loadout.checkpoint, self._loadout.tokenizer
        return tuple(sorted(united_end_ids(checkpoint.eos_ids, tokenizer.eos_id, ignore_eos=False)))

    def residency(self) -> ResidencySnapshot:
        """Return what is in the draft arena at this moment."""
        return self._residency.snapshot(anyio.current_time())

    async def steer_draft(self, wish: DraftWish, name: str) -> ResidencySnapshot:
        """Do what is asked for a draft, now and beside what the policy does; return what is in the arena after it.

        ``load`` wants it until the next ranking, ``pin`` for good, ``unpin`` no longer. ``unload`` lets it go, even if
        it is active, and waits until its memory is free: decoding moves on first, and goes on without it until the next
        request, unless somebody asks for it. Raises InvalidRequest saying why it cannot be, and EngineClosed.
        """
        self._requests.check_open()
        timeout_s = None if wish == "unload" else ASK_TIMEOUT_S
        answer = await self._wired.cache_manager.ask(SteerDraft(wish=wish, draft=name), timeout_s=timeout_s)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, ResidencySnapshot)
        return answer

    @property
    def drafts(self) -> Mapping[str, int]:
        """The drafts there are, and the bytes that each takes."""
        return {name: plan.nbytes for name, plan in self._loadout.plans.items()}

    async def statistics(self) -> Statistics:
        """Return what all drafts achieved since the engine was opened. Raises EngineClosed."""
        self._requests.check_open()
        statistics: Statistics = await self._wired.verifier_stats.ask(GetStatistics(), timeout_s=ASK_TIMEOUT_S)
        return statistics

    async def wait_failed(self) -> SystemFailed:
        """Wait until the engine has ended by itself, an actor having crashed too often; return why."""
        return await self._wired.system.wait_failed()

    # --- what the system tells ----------------------------------------------------------------------------------------

    def _progress(self, progress: LoadProgress) -> None:
        if self._on_load is not None:
            show(self._on_load, progress.draft.name, progress.done_bytes, progress.total_bytes)

    def _observe(self, event: RuntimeEvent) -> None:
        if isinstance(event, Failed):
            self._requests.close(event.error)
        record_runtime(self._log, event)
