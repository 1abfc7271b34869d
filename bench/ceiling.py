"""The most that scheduling could gain on these texts: the exact optimum under K and load time, over general-static.

Beside it `domain-oracle`, the best schedule without hindsight of single tokens. Replayed from traces; about 2 minutes
on two cores, nearly all of it tracing.
"""

from memspec_actors.cli.replay_study import replay_study

if __name__ == "__main__":
    policies = ("oracle-static", "mab-async", "memspec", "memspec+", "domain-oracle", "oracle-dynamic")
    replay_study(__doc__, lambda replays: {"ceiling": replays.compare(policies)})
