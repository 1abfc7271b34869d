"""Open what a request is decoded in, with the target that an engine has loaded."""

from memspec_actors.loadout import Loadout
from memspec_actors.models.session import DecodeSession
from memspec_actors.models.text.incremental import IncrementalDecoder
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.speculation.commit import CommitState, united_end_ids
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.stop import stop_rule

__all__ = ["commit_state", "open_session"]


def open_session(loadout: Loadout, request: GenerationRequest, *, watches_catch_up: bool) -> DecodeSession:
    """Return a session that has read nothing yet. Raises what `commit_state` raises."""
    return DecodeSession(
        target=loadout.target,
        request=request,
        num_ids=loadout.num_ids,
        gap_ids=loadout.gap_ids,
        accept=acceptance_rule(request.accept, greedy=request.sampling.greedy),
        stop_rule=stop_rule(request.stop_rule),
        state=commit_state(loadout, request),
        watches_catch_up=watches_catch_up,
    )


def commit_state(loadout: Loadout, request: GenerationRequest) -> CommitState:
    """Return the state of a text before its first token. Raises InvalidRequest if it could not have one."""
    sampling, tokenizer, checkpoint = request.sampling, loadout.tokenizer, loadout.checkpoint
    return CommitState(
        IncrementalDecoder(tokenizer),
        end_ids=united_end_ids(
            checkpoint.eos_ids, tokenizer.eos_id, sampling.stop_token_ids, ignore_eos=sampling.ignore_eos
        ),
        stop=sampling.stop,
        include_stop=sampling.include_stop_str_in_output,
        max_new_tokens=request.max_new_tokens,
        context_left=checkpoint.max_positions - len(request.prompt_ids),
        min_tokens=sampling.min_tokens,
    )
