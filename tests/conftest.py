"""Settings for all tests."""

import os

import pytest
from hypothesis import HealthCheck, settings

# Toys gain nothing by torch's threads, which wait for one another where the machine has other work. What a test says of
# threads it says to torch itself.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples at every run, so that a failure is of the change at hand; HYPOTHESIS_PROFILE=explore draws new ones.
# No example is too slow, for on a busy machine any may be; and examples share fixtures that they do not change.
settings.register_profile(
    "repeat",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("explore", settings.get_profile("repeat"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

# Worlds that check themselves: what they find is to be told as fully as what a test finds.
WORLDS = ("actors.world", "scheduling.residency_world", "scheduling.model_decoder", "scheduling.model_loader")
pytest.register_assert_rewrite(*(f"tests.{name}" for name in WORLDS))


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, which the actors' mailboxes are made of."""
    return "asyncio"
