"""If these fail, policies are compared on other work than they seem to be."""

from msgspec.structs import replace

from memspec_actors.bench.policies import identical_share
from memspec_actors.comparison import Outcome
from tests.results import NOTHING


def test_one_differing_text_is_noticed() -> None:
    """The policies would be compared on different work."""
    same, other = replace(NOTHING, token_ids=(1, 2)), replace(NOTHING, token_ids=(1, 3))
    outcomes = [Outcome(0, "law", policy, same) for policy in ("a", "a", "b")]
    assert identical_share([*outcomes, Outcome(0, "law", "b", same)]) == 1.0
    assert identical_share([*outcomes, Outcome(0, "law", "b", other)]) == 0.5
