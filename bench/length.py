"""Figure 11: longer texts gain more. Replayed from traces; about 3 minutes on two cores."""

from memspec_actors.bench.replays import SWEPT
from memspec_actors.cli.replay_study import replay_study

if __name__ == "__main__":
    replay_study(__doc__, lambda replays: {str(n): replays.compare(SWEPT, max_new_tokens=n) for n in (64, 128, 256)})
