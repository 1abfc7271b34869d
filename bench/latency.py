"""Section 4.6: what a whole request takes, with encoding the prompt and loading the first draft.

Alone about 3 minutes on two cores; with `--from` a file of `throughput.py` no time at all.
"""

from memspec_actors.cli.decode_study import decode_study

if __name__ == "__main__":
    decode_study(__doc__, ("mab-async", "memspec"), num_prompts=4, part_of="throughput")
