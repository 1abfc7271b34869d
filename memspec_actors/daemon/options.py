"""Turn the fields of a request into what the engine takes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from memspec_actors.daemon.http.refusals import Refusal
from memspec_actors.protocols.http_requests import ChatCompletionRequest, CompletionRequest, GenerationFields
from memspec_actors.protocols.requests import SamplingParams

__all__ = ["Prompt", "Scheduling", "max_new_tokens", "param_of", "prompt_of", "sampling_of", "scheduling_of"]

DEFAULT_COMPLETION_TOKENS = 16  # OpenAI's
_ROLES = {"developer": "system"}  # what chat templates call it


class Prompt(NamedTuple):
    """What the engine encodes; ``field`` is where it came from."""

    content: str | Sequence[int] | Sequence[Mapping[str, str]]
    raw: bool
    field: str


class Scheduling(NamedTuple):
    """The engine's keywords for drafting, and the field that a refusal of them is put down to."""

    options: dict[str, Any]
    field: str | None


def prompt_of(request: CompletionRequest | ChatCompletionRequest) -> Prompt:
    """Return the prompt. Raises Refusal for a batch of several."""
    if isinstance(request, ChatCompletionRequest):
        messages = [{"role": _ROLES.get(m.role, m.role), "content": m.text} for m in request.messages]
        return Prompt(messages, False, "messages")
    prompt = request.prompt
    if not isinstance(prompt, str) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]  # a batch of one
    if isinstance(prompt, str):
        return Prompt(prompt, True, "prompt")
    ids = [each for each in prompt if isinstance(each, int)]
    if len(ids) != len(prompt):
        raise Refusal(400, "prompt: one text or one list of token ids is taken, not several", param="prompt")
    return Prompt(ids, True, "prompt")


def max_new_tokens(request: CompletionRequest | ChatCompletionRequest, context: int) -> int:
    """Return how many tokens are asked for: of a chat without a limit, as many as the ``context`` holds."""
    if isinstance(request, ChatCompletionRequest):
        if request.max_tokens is not None and request.max_completion_tokens not in (None, request.max_tokens):
            raise Refusal(400, "max_tokens differs from max_completion_tokens; give one of them", param="max_tokens")
        return request.max_completion_tokens or request.max_tokens or context
    return request.max_tokens or DEFAULT_COMPLETION_TOKENS


def param_of(message: str, request: GenerationFields, otherwise: str | None) -> str | None:
    """Return the field that an engine's refusal begins with, or ``otherwise`` if it begins with none."""
    first = message.partition(" ")[0]
    return first if first in request.__struct_fields__ else otherwise


def sampling_of(request: CompletionRequest | ChatCompletionRequest) -> SamplingParams:
    """Return the sampling parameters; OpenAI's default temperature is 1."""
    stop = request.stop or ()
    return SamplingParams(
        temperature=1.0 if request.temperature is None else request.temperature,
        top_k=max(0, request.top_k or 0),  # -1 is off too, as vLLM has it
        top_p=1.0 if request.top_p is None else request.top_p,
        min_p=request.min_p or 0.0,
        seed=request.seed,
        stop=(stop,) if isinstance(stop, str) else stop,
        stop_token_ids=request.stop_token_ids or (),
        ignore_eos=bool(request.ignore_eos),
        min_tokens=request.min_tokens or 0,
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        repetition_penalty=request.repetition_penalty or 1.0,
        logit_bias=request.logit_bias or {},
        logprobs=_num_logprobs(request),
    )


def scheduling_of(request: GenerationFields) -> Scheduling:
    """Return policy, method and draft length. Raises Refusal for two fields that say the same thing."""
    options: dict[str, Any] = {"method": request.method}
    if request.num_draft_tokens is not None:
        if request.method is not None:
            raise Refusal(400, "method says how much is drafted; leave num_draft_tokens out", param="num_draft_tokens")
        options["stop"] = f"fixed:{request.num_draft_tokens}"
    policy = _policy_of_draft(request.draft_model)
    if policy is not None and request.policy is not None:
        raise Refusal(400, "draft_model and policy both say which draft runs; give one of them", param="draft_model")
    options["policy"] = policy or request.policy
    return Scheduling(options, "policy" if request.policy is not None else "draft_model" if policy else None)


def _num_logprobs(request: CompletionRequest | ChatCompletionRequest) -> int | None:
    if isinstance(request, CompletionRequest):
        return request.logprobs
    if request.top_logprobs is not None and not request.logprobs:
        raise Refusal(400, "top_logprobs: they come with logprobs only; set logprobs", param="top_logprobs")
    return (request.top_logprobs or 0) if request.logprobs else None


def _policy_of_draft(draft_model: str | UnsetType | None) -> str | None:
    if draft_model is UNSET:
        return None
    return "target-only" if draft_model is None else f"static:{draft_model}"
