"""Settings for all tests."""

import os

from hypothesis import settings

# The same examples at every run, so that a failure is of the change at hand; HYPOTHESIS_PROFILE=explore draws new ones.
settings.register_profile("repeat", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))
