"""AdaSD's tables: every method by speed, acceptance and quality. It is `memspec bench adasd`, with its options."""

import sys

from memspec_actors.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "adasd", *sys.argv[1:]]))
