"""Make a request out of what a caller asks for: filled in from the configuration, checked, or refused."""

import secrets
from collections.abc import Callable

from memspec_actors.config import Config, PredictorConfig
from memspec_actors.errors import ConfigError, InvalidRequest
from memspec_actors.loadout import Loadout
from memspec_actors.methods import choose
from memspec_actors.prompts import Prompt, PromptEncoder
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.resolution import LossNotes, Resolved, resolve
from memspec_actors.scheduling.plan_choice import PlanFile
from memspec_actors.scheduling.policy import Policy, parse_policy
from memspec_actors.scheduling.rankers import Ranker
from memspec_actors.sessions import commit_state

__all__ = ["Admission", "check_predictor"]


class Admission:
    """Let requests in that an engine can decode. ``predictor`` gives the trained ranker; policies that need it call it.

    Raises ConfigError if the configuration names a plan, policy, method or rule that does not exist.
    """

    def __init__(
        self, config: Config, loadout: Loadout, prompts: PromptEncoder, predictor: Callable[[], Ranker]
    ) -> None:
        self._config = config
        self._loadout = loadout
        self._prompts = prompts
        self._predictor = predictor
        self._names = tuple(loadout.plans)
        self._plans = PlanFile(config.schedule.plan, self._names)
        self._loss_notes = LossNotes()
        self._resolve(SamplingParams())

    def admit(
        self, prompt: Prompt, *, max_new_tokens: int, sampling: SamplingParams | None, raw: bool, **asked: str | None
    ) -> GenerationRequest:
        """Return the request for a prompt; ``asked`` are a policy, a stop rule, an acceptance rule and a method.

        Raises InvalidRequest or ConfigError, saying what cannot be.
        """
        if not isinstance(max_new_tokens, int):
            raise InvalidRequest(f"max_new_tokens is {max_new_tokens!r}; it must be an integer")
        sampling = SamplingParams() if sampling is None else sampling
        if not isinstance(sampling, SamplingParams):
            raise InvalidRequest(f"sampling is a {type(sampling).__name__}; give SamplingParams(...)")
        self._check_bias(sampling)
        resolved = self._resolve(sampling, **asked)
        prompt_ids = self._prompts.encode(prompt, raw=raw)
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
            plan=self._plans.plan_for(parse_policy(resolved.policy, self._names), prompt_ids),
        )
        self._loss_notes.note(resolved)
        commit_state(self._loadout, request)  # a request that cannot emit a token is refused here
        return request

    def _resolve(self, sampling: SamplingParams, **asked: str | None) -> Resolved:
        """Fill in the configured policy and rules, and check that they exist."""
        for what, name in asked.items():
            if not isinstance(name, str | None):
                raise InvalidRequest(f"{what} is {name!r}; give its name")
        choice = choose(self._config, **asked)
        policy = parse_policy(choice.policy, self._names)
        self._plans.check(policy)
        check_predictor(policy, self._config.predictor)
        if policy.uses_predictor:
            self._predictor()
        return resolve(choice, greedy=sampling.greedy, thresholds=self._config.speculation.thresholds)

    def _check_bias(self, sampling: SamplingParams) -> None:
        outside = [token for token in sampling.logit_bias if not 0 <= token < self._loadout.num_ids]
        if outside:
            raise InvalidRequest(f"logit_bias is for token id {outside[0]}; ids are 0 to {self._loadout.num_ids - 1}")


def check_predictor(policy: Policy, predictor: PredictorConfig) -> None:
    """Raise ConfigError if the policy ranks with a predictor and none is configured."""
    if policy.uses_predictor and predictor.path is None:
        raise ConfigError(
            f"policy {policy.name!r} needs a predictor, and [predictor] path is none; train one with `memspec predictor"
            f" collect` and `memspec predictor train` and set it, or take another policy"
        )
