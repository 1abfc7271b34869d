"""Figure 10: ranking every 4 to 8 iterations is best. Replayed from traces; about 3 minutes on two cores."""

from memspec_actors.bench.replays import SWEPT
from memspec_actors.cli.replay_study import replay_study

if __name__ == "__main__":
    replay_study(__doc__, lambda replays: {str(n): replays.compare(SWEPT, interval=n) for n in (2, 4, 8, 16)})
