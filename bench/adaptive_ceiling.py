"""What scheduling could gain where drafts stop by `gain`: one who knew every domain, here and next, and the best draft.

`domain-oracle` knows where domains change, and loads the next one's draft beforehand, but not the luck of single
tokens. Replayed from traces; about 4 minutes on two cores, nearly all of it tracing.
"""

from memspec_actors.cli.replay_study import replay_study
from memspec_actors.config_sections import STOP

if __name__ == "__main__":
    policies = ("oracle-static", "mab-async", "prediction-only", "memspec", "memspec+", "domain-oracle")
    replay_study(__doc__, lambda replays: {STOP: replays.compare(policies, stop=STOP)}, free_runs=True)
