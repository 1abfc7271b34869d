"""Figure 6: memspec decodes faster than static drafts and bandits, and nearly as fast as one who knows the text.

All policies on five domains and mixed prompts; a load takes 2.7 iterations, by a throttle. About 4 minutes on two
cores. The files of `breakdown.py`, `components.py` and `latency.py` can be made from this one's, with `--from`.
"""

from memspec_actors.cli.decode_study import decode_study
from memspec_actors.simulation.simulate import POLICIES

if __name__ == "__main__":
    decode_study(__doc__, POLICIES, num_prompts=4)
