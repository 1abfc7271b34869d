"""The studies of real runs: what the MemSpec paper's figures say, and what is to be reached here."""

from memspec_actors.bench.paper.claims import Claim
from memspec_actors.bench.paper.figures import Ratio, scalar
from memspec_actors.bench.paper.policy_claims import (
    FALLBACK,
    OVER_DOMAINS,
    OVER_DYNAMIC,
    OVER_GENERAL,
    OVER_MAB,
    OVER_PLAIN,
    busy_ranking,
    fallback,
    over,
)
from memspec_actors.bench.paper.study import Study
from memspec_actors.comparison import BASE

__all__ = ["DECODED_STUDIES"]

DECODED_STUDIES = (
    Study(
        "throughput",
        "Throughput by policy and domain (figure 6)",
        "Steady-state tokens per second, real runs.",
        (
            OVER_GENERAL,
            OVER_MAB,
            OVER_DOMAINS,
            OVER_DYNAMIC,
            over("oracle-static", BASE, "1.225", 1.225),
            over("oracle-dynamic", "oracle-static", "1.249", 1.249),
            OVER_PLAIN,
        ),
    ),
    Study(
        "adaptive",
        "The same with drafts as long as pays",
        "As figure 6, but drafts stop by `gain`, as they do where nothing is configured, not after five tokens (the "
        "paper does not say what it drafted); real runs.",
        (OVER_GENERAL, OVER_MAB, OVER_DOMAINS, OVER_PLAIN),
    ),
    Study(
        "unthrottled",
        "The same on storage as it is",
        "What is left of the gains where a load takes next to no time, real runs.",
        (over("memspec", BASE), over("memspec", "mab-async"), OVER_PLAIN),
    ),
    Study(
        "breakdown",
        "Where the time goes (figures 4, 7, 9)",
        "Decode time by what ran, mixed prompts, real runs.",
        (
            FALLBACK,
            busy_ranking("memspec", "< 3.9 %"),
            fallback("memspec+"),
            busy_ranking("memspec+"),
            fallback("prediction-only", "21.3 %"),
            fallback("mab-async", "49.4 %"),
        ),
    ),
    Study(
        "components",
        "What each part brings (figure 8)",
        "Without prefetching, without prediction, without going on with what is resident; real runs.",
        (
            over("prediction-only", BASE, "1.216", 1.216),
            OVER_GENERAL,
            over("memspec", "prediction-only", "1.305", 1.0),
            over("memspec", "mab-sync", goal=1.0),
        ),
    ),
    Study(
        "latency",
        "End-to-end latency (section 4.6)",
        "Whole requests from an empty draft cache, prompt and first load included; real runs.",
        tuple(
            Claim(
                says=f"memspec over {other}",
                ours=Ratio("memspec", other, of="latency_s"),
                paper=str(goal),
                goal=goal,
                at_most=True,
            )
            for other, goal in (("general-static", 0.677), ("mab-async", 0.751))
        ),
    ),
    Study(
        "switching",
        "What a switch costs (figure 2)",
        "An iteration, a switch to a draft in memory, one to a draft on this machine's disk.",
        (
            Claim(says="a load over an iteration, storage as it is", ours=scalar("load ratio"), paper="2.7"),
            Claim(
                says="a switch in memory over an iteration",
                ours=scalar("resident switch ratio"),
                paper="small",
                goal=1.0,
                at_most=True,
            ),
        ),
    ),
)
