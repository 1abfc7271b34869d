"""The papers' evaluations, study by study: what each figure and table says, and what is to be reached here.

Goals are those of mixed prompts on storage on which a load takes 2.7 iterations, if nothing else is said.
"""

from typing import NamedTuple

from memspec_actors.bench.methods_report import MAX_LOSS
from memspec_actors.bench.paper.claims import Claim
from memspec_actors.bench.paper.figures import Quotient, Ratio, best_speedup, busy, scalar, share, wrong_answers

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


_OVER_GENERAL = "memspec over general-static"
_PLUS = Claim(says="memspec+ over memspec", ours=Ratio("memspec+", "memspec"), goal=NOISE)
_OVER_ORACLES = (
    Claim(says="memspec over domain-oracle", ours=Ratio("memspec", "domain-oracle"), goal=0.97),
    Claim(says="memspec over oracle-dynamic", ours=Ratio("memspec", "oracle-dynamic"), paper="0.95–0.97", goal=0.92),
)

STUDIES = (
    Study(
        "throughput",
        "Throughput by policy and domain (figure 6)",
        "Steady-state tokens per second, real runs.",
        (
            Claim(says=_OVER_GENERAL, ours=Ratio("memspec"), paper="1.588", goal=1.588),
            Claim(says="memspec over mab-async", ours=Ratio("memspec", "mab-async"), paper="1.407", goal=1.407),
            *_OVER_ORACLES,
            Claim(says="oracle-static over general-static", ours=Ratio("oracle-static"), paper="1.225", goal=1.225),
            Claim(
                says="oracle-dynamic over oracle-static",
                ours=Ratio("oracle-dynamic", "oracle-static"),
                paper="1.249",
                goal=1.249,
            ),
            _PLUS,
        ),
    ),
    Study(
        "adaptive",
        "The same with drafts as long as pays",
        "As figure 6, but drafts stop by `gain`, as they do where nothing is configured, not after five tokens (the "
        "paper does not say what it drafted); real runs, oracles left at five-token plans.",
        (
            Claim(says=_OVER_GENERAL, ours=Ratio("memspec"), paper="1.588", goal=1.588),
            Claim(says="memspec over mab-async", ours=Ratio("memspec", "mab-async"), paper="1.407", goal=1.407),
            Claim(says="memspec over domain-oracle", ours=Ratio("memspec", "domain-oracle"), goal=0.97),
            _PLUS,
        ),
    ),
    Study(
        "unthrottled",
        "The same on storage as it is",
        "What is left of the gains where a load takes next to no time, real runs.",
        (
            Claim(says=_OVER_GENERAL, ours=Ratio("memspec")),
            Claim(says="memspec over mab-async", ours=Ratio("memspec", "mab-async")),
            _PLUS,
        ),
    ),
    Study(
        "breakdown",
        "Where the time goes (figures 4, 7, 9)",
        "Decode time by what ran, mixed prompts, real runs.",
        tuple(
            Claim(says=says, ours=figure, paper=paper, goal=goal, at_most=True, percent=True)
            for says, figure, paper, goal in (
                ("memspec: fallback", share("memspec", "fallback"), "< 5.5 %", 0.055),
                ("memspec: ranking, beside decoding", busy("memspec"), "< 3.9 %", 0.039),
                ("memspec+: fallback", share("memspec+", "fallback"), "", None),
                ("memspec+: ranking, beside decoding", busy("memspec+"), "", 0.039),
                ("prediction-only: fallback", share("prediction-only", "fallback"), "21.3 %", None),
                ("mab-async: fallback", share("mab-async", "fallback"), "49.4 %", None),
            )
        ),
    ),
    Study(
        "components",
        "What each part brings (figure 8)",
        "Without prefetching, without prediction, without going on with what is resident; real runs.",
        (
            Claim(says="prediction-only over general-static", ours=Ratio("prediction-only"), paper="1.216", goal=1.216),
            Claim(says=_OVER_GENERAL, ours=Ratio("memspec"), paper="1.588", goal=1.588),
            Claim(
                says="memspec over prediction-only", ours=Ratio("memspec", "prediction-only"), paper="1.305", goal=1.0
            ),
            Claim(says="memspec over mab-sync", ours=Ratio("memspec", "mab-sync"), goal=1.0),
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
            Claim(says="oracle-dynamic over general-static", ours=Ratio("oracle-dynamic"), paper="1.530"),
            Claim(says="domain-oracle over general-static", ours=Ratio("domain-oracle")),
            Claim(says=_OVER_GENERAL, ours=Ratio("memspec"), paper="1.588"),
            *_OVER_ORACLES,
            _PLUS,
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
                says=f"memspec+ over memspec, {setting}",
                ours=Ratio("memspec+", "memspec", setting=setting),
                goal=NOISE if setting == "full" else 1.0,
            )
            for setting in ("full", *map(without, LEFT_OUT))
        ),
    ),
    Study(
        "adasd",
        "AdaSD's tables: when to stop drafting, what to accept",
        "Every method over vanilla speculative decoding with five tokens, real runs; beside it the paper's figures. "
        "The best data set is one of those on which a method loses no more right answers than the goal allows, if any.",
        (
            *(
                Claim(
                    says=f"{method}, best data set",
                    ours=best_speedup(method),
                    paper=paper,
                    goal=goal,
                    flaw=wrong_answers(method),
                )
                for method, paper, goal in (
                    ("gen-only", "1.422", 1.25),
                    ("gain-only", "", 1.25),
                    ("adasd", "1.457", 1.46),
                    ("typical", "", 1.46),
                )
            ),
            *(
                Claim(
                    says=f"{method} over assistedgen, geometric mean",
                    ours=scalar(f"{method} over assistedgen"),
                    paper=paper,
                    goal=1.0,
                )
                for method, paper in (("adasd", "0.974–1.142"), ("typical", ""))
            ),
            *(
                Claim(
                    says=f"{method}: right answers lost",
                    ours=scalar(f"{method}: accuracy lost"),
                    paper=paper,
                    goal=MAX_LOSS,
                    at_most=True,
                    percent=True,
                )
                for method, paper in (("adasd", "< 1.8 %"), ("typical", ""))
            ),
            *(
                Claim(
                    says=f"{method} over fixed:5, both with memspec, mixed prompts",
                    ours=scalar(f"{method} with memspec"),
                    goal=1.0,
                )
                for method in ("gen-only", "gain-only")
            ),
        ),
    ),
)
