"""Figure 2: a switch to a draft in memory costs a fraction of an iteration, one to a draft on disk several.

On this machine's own storage, of which the embedded drafts ask little; other studies throttle it. Under a minute.
"""

from argparse import Namespace

from memspec_actors.cli.study import Measured, run_study
from memspec_actors.config import Config
from memspec_actors.progress import Progress
from memspec_actors.simulation.measure import measure_profile

DRAFTED, MISSED = 5, 32  # tokens drafted in an iteration; tokens that the draft switched to has not read


def measure(config: Config, arguments: Namespace, progress: Progress) -> Measured:
    profile = measure_profile(config)
    iteration_ms, resident_ms = profile.iteration_s(DRAFTED) * 1e3, profile.catch_up_s(MISSED) * 1e3
    load_ms = profile.load_s(0) * 1e3
    return Measured(
        setting=f"{DRAFTED} tokens drafted, a switch after {MISSED} unread tokens; {profile.source}",
        scalars={
            "iteration ms": iteration_ms,
            "switch in memory ms": resident_ms,
            "switch with load ms": load_ms + resident_ms,
            "load ratio": load_ms / iteration_ms,
            "resident switch ratio": resident_ms / iteration_ms,
        },
    )


if __name__ == "__main__":
    run_study(__doc__, measure)
