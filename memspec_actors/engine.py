"""The engine: the five actors on real models, offered as an async library."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import torch

from memspec_actors.config import Config
from memspec_actors.engine_records import record_runtime, record_start, record_stop
from memspec_actors.errors import ConfigError, InvalidRequest, SystemFailed
from memspec_actors.loadout import Loadout
from memspec_actors.methods import choose, decoding_alone
from memspec_actors.models.devices.threads import stand_back, use_threads
from memspec_actors.models.drafting.arena import WeightArena
from memspec_actors.models.drafting.reader import ArenaReader
from memspec_actors.models.session import DecodeSession
from memspec_actors.models.weights.loading import Throttle
from memspec_actors.prompts import Prompt, PromptEncoder
from memspec_actors.protocols.messages import DraftWish, GetStatistics, LoadProgress, SteerDraft
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.protocols.results import GenerationResult, ResidencySnapshot, Statistics
from memspec_actors.resolution import LossNotes, Resolved, resolve
from memspec_actors.runtime import Failed, RuntimeEvent, Workers
from memspec_actors.scheduling.artefacts import Artefact, DraftArena, DraftSpec
from memspec_actors.scheduling.plan_choice import PlanFile
from memspec_actors.scheduling.policy import Policy, parse_policy
from memspec_actors.scheduling.ranker_pool import RankerMaker
from memspec_actors.scheduling.rankers import Ranker
from memspec_actors.scheduling.residency import Residency
from memspec_actors.sessions import commit_state, open_session
from memspec_actors.speculation.adaptation import Adaptations
from memspec_actors.speculation.commit import united_end_ids
from memspec_actors.stream import Requests, TextStream
from memspec_actors.telemetry.event_log import EventLog, Listener
from memspec_actors.wiring import Parts, Wired, wire

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
        self._names = tuple(loadout.plans)
        self._on_load = on_load
        self._prompts = PromptEncoder(loadout.tokenizer, loadout.num_ids)
        self._residency = _residency(loadout)
        self._predictor: Ranker | None = None
        self._loss_notes = LossNotes()
        self._plans = PlanFile(config.schedule.plan, self._names)
        self._resolve(SamplingParams())  # a wrong policy or rule is found when the engine opens
        self._wired = self._wire()
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
        hold, as it happens. Raises ConfigError, CheckpointError or IncompatibleDraft, naming what is wrong and where.
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
        if not isinstance(max_new_tokens, int):
            raise InvalidRequest(f"max_new_tokens is {max_new_tokens!r}; it must be an integer")
        sampling = SamplingParams() if sampling is None else sampling
        if not isinstance(sampling, SamplingParams):
            raise InvalidRequest(f"sampling is a {type(sampling).__name__}; give SamplingParams(...)")
        self._check_bias(sampling)
        resolved = self._resolve(sampling, policy=policy, stop=stop, accept=accept, method=method)
        prompt_ids = self.encode(prompt, raw=raw)
        request = GenerationRequest(
            request_id=secrets.token_hex(8),
            prompt_ids=prompt_ids,
            max_new_tokens=max_new_tokens,
            sampling=sampling,
            seed=secrets.randbits(63) if sampling.seed is None else sampling.seed,
            policy=resolved.policy,
            stop_rule=resolved.stop_rule,
            accept=resolved.accept,
            lossless=resolved.lossless,
            thresholds=resolved.thresholds,
            plan=self._plans.plan_for(self._policy_of(resolved.policy), prompt_ids),
        )
        self._loss_notes.note(resolved)
        commit_state(self._loadout, request)  # a request that cannot emit a token is refused here
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

    # --- requests -----------------------------------------------------------------------------------------------------

    def _resolve(self, sampling: SamplingParams, **asked: str | None) -> Resolved:
        """Fill in the configured policy and rules, and check that they exist."""
        for what, name in asked.items():
            if not isinstance(name, str | None):
                raise InvalidRequest(f"{what} is {name!r}; give its name")
        choice = choose(self.config, **asked)
        policy = parse_policy(choice.policy, self._names)
        self._plans.check(policy)
        if policy.uses_predictor and self._predictor is None:
            self._predictor = _open_predictor(choice.policy, self.config, self._loadout)
        return resolve(choice, greedy=sampling.greedy, thresholds=self.config.speculation.thresholds)

    def _check_bias(self, sampling: SamplingParams) -> None:
        outside = [token for token in sampling.logit_bias if not 0 <= token < self._loadout.num_ids]
        if outside:
            raise InvalidRequest(f"logit_bias is for token id {outside[0]}; ids are 0 to {self._loadout.num_ids - 1}")

    # --- wiring -------------------------------------------------------------------------------------------------------

    def _wire(self) -> Wired:
        loadout, bandwidth = self._loadout, self.config.storage.bytes_per_second
        throttle = None if bandwidth is None else Throttle(bandwidth)
        maker = self._ranker_maker()
        parts = Parts(
            open_session=self._open_session,
            policy_of=self._policy_of,
            new_ranker=lambda policy, point: maker.make(policy, seed=point.seed, plan=point.plan),
            reader=ArenaReader(
                WeightArena(loadout.budget_bytes, loadout.device), loadout.plans, loadout.num_common, throttle
            ),
            residency=self._residency,
            schedule=self.config.schedule,
            capacity=loadout.capacity,
            log=self._log,
            on_progress=self._progress,
            adaptations=Adaptations(shared=self.config.speculation.share_thresholds),
            new_workers=self._new_workers,
        )
        return wire(parts, self._observe)

    def _new_workers(self, name: str) -> Workers:
        """Give decoding its threads; what goes on beside it has few and comes second, so that it takes no core away."""
        if name == "decode":
            return Workers(name, partial(use_threads, self.config.target.num_threads))
        return Workers(name, partial(stand_back, self.config.target.background_threads))

    def _open_session(self, request: GenerationRequest) -> DecodeSession:
        policy = self._policy_of(request.policy)
        return open_session(self._loadout, request, watches_catch_up=policy.watches_catch_up)

    def _policy_of(self, name: str) -> Policy:
        return parse_policy(name, self._names)

    def _ranker_maker(self) -> RankerMaker:
        loadout = self._loadout
        arena = DraftArena(_specs(loadout), loadout.budget_bytes)
        return RankerMaker(
            drafts=self._names, predictor=self._trained_predictor, capacity=loadout.capacity, fits=arena.could_hold
        )

    def _trained_predictor(self) -> Ranker:
        assert self._predictor is not None, "a policy that needs a predictor was let through without one"
        return self._predictor

    def _progress(self, progress: LoadProgress) -> None:
        if self._on_load is not None:
            self._on_load(progress.draft.name, progress.done_bytes, progress.total_bytes)

    def _observe(self, event: RuntimeEvent) -> None:
        if isinstance(event, Failed):
            self._requests.close(event.error)
        record_runtime(self._log, event)


def _specs(loadout: Loadout) -> list[DraftSpec]:
    return [
        DraftSpec(name=name, artefacts=(Artefact(name=name, nbytes=plan.nbytes),))
        for name, plan in loadout.plans.items()
    ]


def _residency(loadout: Loadout) -> Residency:
    return Residency(_specs(loadout), capacity=loadout.capacity, budget_bytes=loadout.budget_bytes)


def _open_predictor(policy: str, config: Config, loadout: Loadout) -> Ranker:
    if config.predictor.path is None:
        raise ConfigError(
            f"policy {policy!r} needs a predictor, and [predictor] path is none; set it, or another policy"
        )
    from memspec_actors.predictor.ranker import PredictorRanker, predictor_directory

    return PredictorRanker.open(predictor_directory(config.predictor.path), tuple(loadout.plans), loadout.tokenizer)
