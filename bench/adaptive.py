"""Figure 6 as the runtime is used: drafts stop by `gain`, not after five tokens. About 3 minutes on two cores.

An iteration of a draft that is right gives more tokens then, so the choice of the draft matters more. There is no
`oracle-dynamic`: its plans are exact for drafts of one length only.
"""

from memspec_actors.cli.decode_study import decode_study
from memspec_actors.config_sections import STOP

POLICIES = ("oracle-static", "mab-async", "prediction-only", "memspec", "memspec+", "domain-oracle")

if __name__ == "__main__":
    decode_study(__doc__, POLICIES, num_prompts=4, stop=STOP)
