"""``python -m memspec_actors`` is the ``memspec`` command."""

import sys

from memspec_actors.cli import main

sys.exit(main())
