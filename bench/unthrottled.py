"""What is left of figure 6 where storage is as fast as this machine's. About 2 minutes on two cores."""

from memspec_actors.cli.decode_study import decode_study

if __name__ == "__main__":
    decode_study(__doc__, ("oracle-static", "mab-async", "memspec", "memspec+"), num_prompts=4, throttle=False)
