"""Figures 4, 7 and 9: bandits spend half of the time on drafts that they do not want, memspec next to none.

Alone about 6 minutes on two cores; with `--from` a file of `throughput.py` no time at all.
"""

from memspec_actors.cli.decode_study import decode_study

if __name__ == "__main__":
    policies = ("oracle-static", "mab-sync", "mab-async", "prediction-only", "memspec", "memspec+")
    decode_study(__doc__, policies, num_prompts=4, part_of="throughput")
