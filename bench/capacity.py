"""Figure 12: with room for more drafts bandits gain, memspec hardly needs it.

At the pace of the larger device, as in the paper. Replayed from traces; about 5 minutes on two cores, most of it the
oracle's planning.
"""

from memspec_actors.bench.replays import SWEPT
from memspec_actors.cli.replay_study import replay_study

if __name__ == "__main__":
    replay_study(
        __doc__,
        lambda replays: {str(k): replays.compare(SWEPT, capacity=k) for k in (2, 3, 4)},
        profile="jetson-agx-orin",
    )
