"""If these fail, a caller waits for ever, is told two things, or is told another than the event log."""

import random

import pytest

from memspec_actors.actors.decoding.requests import RequestQueue
from memspec_actors.errors import EngineClosed
from memspec_actors.models.outcome import StepOutcome
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.protocols.results import TokenLogprob
from memspec_actors.speculation.commit import Commit
from tests.actors.accepting import Caller, accepted

pytestmark = pytest.mark.anyio
LAW, CODE = ResidentDraft("law", 2), ResidentDraft("code", 1)


async def test_requests_are_served_in_order_and_each_ends_once() -> None:
    """Invariant 8, whoever leaves when: those that wait, the one that is served, and those that ended before."""
    for seed in range(60):
        rng, queue, callers, expected = random.Random(seed), RequestQueue(), list[Caller](), list[int]()
        for _ in range(rng.randint(0, 30)):
            action = rng.choice(["add", "add", "serve", "cancel"])
            if action == "add":
                expected.append(len(callers))
                callers.append(Caller())
                queue.add(accepted(callers[-1], f"r{len(callers) - 1}"))
            elif action == "serve" and expected:
                request = queue.serve_next()
                assert request.request.request_id == f"r{expected.pop(0)}"
                if rng.random() < 0.3:
                    break
                request.finish("length", text="text", token_ids=(1, 2))
                queue.served()
            elif action == "cancel" and callers:
                index = rng.randrange(len(callers))
                queue.cancel(f"r{index}")
                if index in expected:
                    expected.remove(index)
                    assert [result.finish_reason for result in callers[index].results] == ["cancelled"]
            assert queue.is_empty == (not expected)
        queue.fail_all(EngineClosed("the engine was closed"))
        queue.fail_all(EngineClosed("closed again"))
        assert queue.is_empty
        assert all(caller.num_ends == 1 for caller in callers), f"seed {seed}"
        assert all(str(error) == "the engine was closed" for caller in callers for error in caller.errors)


async def test_cancelling_the_request_that_is_served_is_not_the_queues_business() -> None:
    """It ends at its next iteration boundary, with the text so far: a result now would be another one."""
    caller, queue = Caller(), RequestQueue()
    queue.add(accepted(caller))
    queue.serve_next()
    queue.cancel("r0")
    assert caller.num_ends == 0


async def test_a_chunk_is_what_an_iteration_gave() -> None:
    logprobs = (TokenLogprob(token_id=7, logprob=-0.5, top=()),)
    commit = Commit(ids=(7,), text="seven", finish_reason=None)
    caller = Caller()
    request = accepted(caller)
    request.emit(StepOutcome(commit=commit, drafted=3, accepted=1, logprobs=logprobs), LAW, (CODE, LAW))
    request.emit_tail("end", (LAW,))
    first, last = caller.chunks
    assert (first.text, first.token_ids, first.logprobs) == ("seven", (7,), logprobs)
    assert (first.draft, first.resident, first.drafted, first.accepted) == ("law", ("code", "law"), 3, 1)
    assert (last.text, last.token_ids, last.draft, last.drafted, last.accepted) == ("end", (), None, 0, 0)
    request.finish("stop", text="sevenend", token_ids=(7,), logprobs=logprobs)
    (result,) = caller.results
    assert (result.text, result.token_ids, result.finish_reason, result.logprobs) == (
        "sevenend",
        (7,),
        "stop",
        logprobs,
    )
