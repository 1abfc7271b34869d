"""Figures 1 and 3: the draft that fits a prompt is accepted more often, and the one that fits each part of it more yet.

Replayed from traces. About 2 minutes on two cores, nearly all of it tracing.
"""

from memspec_actors.cli.replay_study import replay_study

if __name__ == "__main__":
    policies = ("oracle-static", "mab-sync", "mab-async", "memspec", "oracle-dynamic")
    replay_study(__doc__, lambda replays: {"tokens per iteration": replays.compare(policies)})
