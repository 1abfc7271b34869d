"""The studies of replayed texts: what the MemSpec paper's figures say, and what is to be reached here."""

from memspec_actors.bench.datasets import MIXED
from memspec_actors.bench.paper.claims import Claim
from memspec_actors.bench.paper.figures import Ratio, scalar
from memspec_actors.bench.paper.policy_claims import (
    FALLBACK,
    LEVEL,
    NOISE,
    OVER_DOMAINS,
    OVER_DYNAMIC,
    OVER_PLAIN,
    fallback,
    growth,
    over,
)
from memspec_actors.bench.paper.study import Study
from memspec_actors.comparison import BASE

__all__ = ["LEFT_OUT", "REPLAYED_STUDIES", "without"]

LEFT_OUT = ("code", "math", "law", "medical")  # domains that a predictor never saw, one at a time


def without(domain: str) -> str:
    """Name the setting in which the predictor never saw a domain."""
    return f"without {domain}"


REPLAYED_STUDIES = (
    Study(
        "acceptance",
        "Tokens per iteration (figures 1, 3)",
        "What the choice of drafts is worth before time counts; replayed.",
        tuple(
            Claim(
                says=f"{policy} over {other}",
                ours=Ratio(policy, other, "tokens_per_iteration"),
                paper=str(goal),
                goal=goal,
            )
            for policy, other, goal in (
                ("oracle-static", "general-static", 1.403),
                ("oracle-dynamic", "oracle-static", 1.257),
                ("mab-sync", "general-static", 1.345),
            )
        ),
    ),
    Study(
        "ceiling",
        "The ceiling of these texts",
        "What one who knew the text, or its domains, would reach; replayed.",
        (
            over("oracle-dynamic", BASE, "1.530"),
            over("domain-oracle", BASE),
            over("memspec", BASE, "1.588"),
            OVER_DOMAINS,
            OVER_DYNAMIC,
            OVER_PLAIN,
            FALLBACK,
            fallback("domain-oracle"),
        ),
    ),
    Study(
        "adaptive_ceiling",
        "The ceiling with drafts as long as pays",
        "What one who knew every domain, here and next, would reach where drafts stop by `gain`; replayed.",
        (
            over("oracle-static", BASE, "1.225"),
            over("domain-oracle", BASE),
            over("memspec", BASE, "1.588"),
            over("memspec", "domain-oracle"),
            OVER_PLAIN,
            fallback("memspec"),
            fallback("domain-oracle"),
        ),
    ),
    Study(
        "interval",
        "Scheduling interval N (figure 10)",
        "How often to rank; replayed.",
        (
            Claim(says="memspec: N = 4 over 2", ours=growth("memspec", "4", "2"), paper="> 1", goal=1.0),
            Claim(says="memspec: N = 8 over 4", ours=growth("memspec", "8", "4"), paper="about 1", goal=LEVEL),
            Claim(says="memspec: N = 4 over 16", ours=growth("memspec", "4", "16"), paper="> 1", goal=1.0),
        ),
    ),
    Study(
        "length",
        "Length of the text (figure 11)",
        "Longer texts change domain more often; replayed.",
        (
            Claim(says="memspec: 128 over 64 tokens", ours=growth("memspec", "128", "64"), paper="> 1", goal=1.0),
            Claim(says="memspec: 256 over 128 tokens", ours=growth("memspec", "256", "128"), paper="> 1", goal=1.0),
        ),
    ),
    Study(
        "capacity",
        "Drafts in memory K (figure 12)",
        "At the pace of the larger device, as in the paper; replayed.",
        tuple(
            Claim(says=f"{policy}, K = {k}", ours=Ratio(policy, setting=k), paper=paper, goal=goal)
            for policy, k, paper, goal in (
                ("memspec", "2", "1.47", 1.47),
                ("memspec", "4", "1.51", 1.51),
                ("mab-async", "2", "1.13", None),
                ("mab-async", "4", "1.29", None),
            )
        ),
    ),
    Study(
        "predictor_inputs",
        "What the predictor reads (table 2)",
        "How often the best draft is ranked first, and among the first two; beside it the score of one who knows the "
        "domains of the text, now and next, but not the luck of single tokens.",
        tuple(
            Claim(
                says=f"{kind}: {top}",
                ours=scalar(f"{kind} {top}"),
                paper=f"{paper:.1%}" if paper else "",
                goal=paper if kind == "prompt+recent" else None,
                percent=True,
            )
            for kind, top, paper in (
                ("prompt", "top1", 0.319),
                ("prompt", "top2", 0.558),
                ("recent", "top1", 0.571),
                ("recent", "top2", 0.793),
                ("prompt+recent", "top1", 0.716),
                ("prompt+recent", "top2", 0.957),
                ("knowing the domain", "top1", None),
                ("knowing the domain", "top2", None),
            )
        ),
    ),
    Study(
        "unseen_domain",
        "A predictor that never saw a domain",
        "Beyond the paper: memspec+ where rankings are wrong; replayed.",
        tuple(
            Claim(
                says=f"memspec+ over memspec, {setting}, {dataset} prompts",
                ours=Ratio("memspec+", "memspec", dataset=dataset, setting=setting),
                goal=goal,
            )
            for setting, dataset, goal in (("full", MIXED, NOISE), *((without(each), each, 1.0) for each in LEFT_OUT))
        ),
    ),
)
