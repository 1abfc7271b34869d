"""Figure 8: prediction alone gains something, prediction and prefetching together gain the most.

`prediction-only` is memspec without prefetching, `mab-async` without prediction, `mab-sync` without going on with a
draft that is resident either. Alone about 5 minutes on two cores; with `--from` a file of `throughput.py` no time.
"""

from memspec_actors.cli.decode_study import decode_study

if __name__ == "__main__":
    policies = ("mab-sync", "mab-async", "prediction-only", "memspec")
    decode_study(__doc__, policies, num_prompts=4, part_of="throughput")
