"""What AdaSD's tables claim of methods, and what is to be reached here."""

from memspec_actors.bench.methods_report import MAX_LOSS
from memspec_actors.bench.paper.claims import Claim
from memspec_actors.bench.paper.figures import best_speedup, scalar, wrong_answers

__all__ = ["METHOD_CLAIMS"]

METHOD_CLAIMS = (
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
)
