"""The papers' evaluations, study by study: what each figure and table says, and what is to be reached here.

Goals are those of mixed prompts on storage on which a load takes 2.7 iterations, if nothing else is said.
"""

from typing import NamedTuple

from memspec_actors.bench.datasets import MIXED
from memspec_actors.bench.paper.claims import Claim
from memspec_actors.bench.paper.figures import Figure, Quotient, Ratio, busy, scalar, share
from memspec_actors.bench.paper.method_claims import METHOD_CLAIMS
from memspec_actors.comparison import BASE

__all__ = ["LEFT_OUT", "STUDIES", "Study", "without"]

LEFT_OUT = ("code", "math", "law", "medical")  # domains that a predictor never saw, one at a time
NOISE = 0.99  # a ratio above it is no slow-down that a run could show
LEVEL = 0.95  # the paper calls gains unchanged that differ by less


class Study(NamedTuple):
    """One script of ``bench/``, what it answers, and what the papers claim."""

    name: str
    title: str
    question: str
    claims: tuple[Claim, ...]


def without(domain: str) -> str:
    """Name the setting in which the predictor never saw a domain."""
    return f"without {domain}"


def _growth(policy: str, above: str, below: str) -> Quotient:
    """Compare the gains over General-Static in two settings of what a study varies."""
    return Quotient(Ratio(policy, setting=above), Ratio(policy, setting=below))


def _over(policy: str, other: str, paper: str = "", goal: float | None = None) -> Claim:
    """Compare the throughputs of two policies."""
    return Claim(says=f"{policy} over {other}", ours=Ratio(policy, other), paper=paper, goal=goal)


def _fallback(policy: str, paper: str = "", goal: float | None = None) -> Claim:
    """Give the share of time in which the preferred draft was not in memory, and another ran."""
    return _at_most(f"{policy}: fallback", share(policy, "fallback"), paper, goal)


def _busy(policy: str, paper: str = "") -> Claim:
    return _at_most(f"{policy}: ranking, beside decoding", busy(policy), paper, 0.039)


def _at_most(says: str, figure: Figure, paper: str, goal: float | None) -> Claim:
    return Claim(says=says, ours=figure, paper=paper, goal=goal, at_most=True, percent=True)


_OVER_GENERAL = _over("memspec", BASE, "1.588", 1.588)
_OVER_MAB = _over("memspec", "mab-async", "1.407", 1.407)
_OVER_PLAIN = _over("memspec+", "memspec", goal=NOISE)
_OVER_DOMAINS = _over("memspec", "domain-oracle", goal=0.97)
_OVER_DYNAMIC = _over("memspec", "oracle-dynamic", "0.95–0.97", 0.92)
_FALLBACK = _fallback("memspec", "< 5.5 %", 0.055)

STUDIES = (
    Study(
        "throughput",
        "Throughput by policy and domain (figure 6)",
        "Steady-state tokens per second, real runs.",
        (
            _OVER_GENERAL,
            _OVER_MAB,
            _OVER_DOMAINS,
            _OVER_DYNAMIC,
            _over("oracle-static", BASE, "1.225", 1.225),
            _over("oracle-dynamic", "oracle-static", "1.249", 1.249),
            _OVER_PLAIN,
        ),
    ),
    Study(
        "adaptive",
        "The same with drafts as long as pays",
        "As figure 6, but drafts stop by `gain`, as they do where nothing is configured, not after five tokens (the "
        "paper does not say what it drafted); real runs.",
        (_OVER_GENERAL, _OVER_MAB, _OVER_DOMAINS, _OVER_PLAIN),
    ),
    Study(
        "unthrottled",
        "The same on storage as it is",
        "What is left of the gains where a load takes next to no time, real runs.",
        (_over("memspec", BASE), _over("memspec", "mab-async"), _OVER_PLAIN),
    ),
    Study(
        "breakdown",
        "Where the time goes (figures 4, 7, 9)",
        "Decode time by what ran, mixed prompts, real runs.",
        (
            _FALLBACK,
            _busy("memspec", "< 3.9 %"),
            _fallback("memspec+"),
            _busy("memspec+"),
            _fallback("prediction-only", "21.3 %"),
            _fallback("mab-async", "49.4 %"),
        ),
    ),
    Study(
        "components",
        "What each part brings (figure 8)",
        "Without prefetching, without prediction, without going on with what is resident; real runs.",
        (
            _over("prediction-only", BASE, "1.216", 1.216),
            _OVER_GENERAL,
            _over("memspec", "prediction-only", "1.305", 1.0),
            _over("memspec", "mab-sync", goal=1.0),
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
    Study(
        "acceptance",
        "Tokens per iteration (figures 1, 3)",
        "What the choice of drafts is worth before time counts; replayed.",
        tuple(
            Claim(
                says=f"{ours} over {over}", ours=Ratio(ours, over, "tokens_per_iteration"), paper=str(goal), goal=goal
            )
            for ours, over, goal in (
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
            _over("oracle-dynamic", BASE, "1.530"),
            _over("domain-oracle", BASE),
            _over("memspec", BASE, "1.588"),
            _OVER_DOMAINS,
            _OVER_DYNAMIC,
            _OVER_PLAIN,
            _FALLBACK,
            _fallback("domain-oracle"),
        ),
    ),
    Study(
        "adaptive_ceiling",
        "The ceiling with drafts as long as pays",
        "What one who knew every domain, here and next, would reach where drafts stop by `gain`; replayed.",
        (
            _over("oracle-static", BASE, "1.225"),
            _over("domain-oracle", BASE),
            _over("memspec", BASE, "1.588"),
            _over("memspec", "domain-oracle"),
            _OVER_PLAIN,
            _fallback("memspec"),
            _fallback("domain-oracle"),
        ),
    ),
    Study(
        "interval",
        "Scheduling interval N (figure 10)",
        "How often to rank; replayed.",
        (
            Claim(says="memspec: N = 4 over 2", ours=_growth("memspec", "4", "2"), paper="> 1", goal=1.0),
            Claim(says="memspec: N = 8 over 4", ours=_growth("memspec", "8", "4"), paper="about 1", goal=LEVEL),
            Claim(says="memspec: N = 4 over 16", ours=_growth("memspec", "4", "16"), paper="> 1", goal=1.0),
        ),
    ),
    Study(
        "length",
        "Length of the text (figure 11)",
        "Longer texts change domain more often; replayed.",
        (
            Claim(says="memspec: 128 over 64 tokens", ours=_growth("memspec", "128", "64"), paper="> 1", goal=1.0),
            Claim(says="memspec: 256 over 128 tokens", ours=_growth("memspec", "256", "128"), paper="> 1", goal=1.0),
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
    Study(
        "adasd",
        "AdaSD's tables: when to stop drafting, what to accept",
        "Every method over vanilla speculative decoding with five tokens, real runs; beside it the paper's figures. "
        "The best data set is one of those on which a method loses no more right answers than the goal allows, if any.",
        METHOD_CLAIMS,
    ),
)
