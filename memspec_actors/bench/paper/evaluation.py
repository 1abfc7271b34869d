"""The papers' evaluations, study by study, in the order in which they are reported."""

from memspec_actors.bench.paper.decoded_studies import DECODED_STUDIES
from memspec_actors.bench.paper.method_claims import METHOD_CLAIMS
from memspec_actors.bench.paper.replayed_studies import REPLAYED_STUDIES
from memspec_actors.bench.paper.study import Study

__all__ = ["STUDIES"]

STUDIES = (
    *DECODED_STUDIES,
    *REPLAYED_STUDIES,
    Study(
        "adasd",
        "AdaSD's tables: when to stop drafting, what to accept",
        "Every method over vanilla speculative decoding with five tokens, real runs; beside it the paper's figures. "
        "The best data set is one of those on which a method loses no more right answers than the goal allows, if any.",
        METHOD_CLAIMS,
    ),
)
