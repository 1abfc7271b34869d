"""If this fails, a played draft goes on where the real one would have stopped, or the other way round."""

from memspec_actors.simulation.traced import draft_runners
from memspec_actors.speculation.criterion import StopCriterion
from memspec_actors.speculation.proposing import Drawing
from tests.simulation.toys import VOCABULARY, Toys


def test_a_played_draft_goes_on_from_what_earlier_tokens_came_to() -> None:
    toys = Toys(seed=3, rates=[0.0], max_new_tokens=30, k=5, eos_ids=frozenset(), sharpness=20.0)
    _, record = toys.trace(free_runs=True)
    draft = draft_runners(record, VOCABULARY, 40)["d0"]
    text = [*record.prompt_ids, record.output_ids[0]]
    lengths = []
    for before in (1.0, 0.0):
        stop = StopCriterion(8, "confidence", threshold=0.5, chained=True, before=before)
        ids, signals, _ = draft.draft_until(
            text, draft.new_cache(40), 8, VOCABULARY, stop, Drawing(None, [], keeps_probs=False)
        )
        assert ids == list(record.output_ids[1 : 1 + len(ids)])
        assert len(signals) == len(ids)
        lengths.append(len(ids))
    assert lengths == [8, 1]
