"""The ranker that needs no model."""

from memspec_actors.scheduling.rankers import Ranking, RankingContext, StaticRanker


def test_a_static_ranker_never_changes_its_mind() -> None:
    """A static baseline would use the predictor's knowledge."""
    ranker = StaticRanker("math")
    contexts = [RankingContext(prompt_ids=(1, 2)), RankingContext(prompt_ids=(), recent_ids=(3,), interval=7)]
    assert [ranker.rank(context) for context in contexts] == [Ranking(("math",), (1.0,))] * 2
