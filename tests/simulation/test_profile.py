"""If these fail, a simulation runs at another pace than the profile says, or on a profile that makes no sense."""

from pathlib import Path

import pytest

from memspec_actors.errors import ConfigError
from memspec_actors.simulation.profile import DeviceProfile, open_profile, profile_names

GOOD = """
device = "d"
source = "s"
draft_ms = 2.0
catch_up_ms = 0.5
predict_ms = 1.0
load_bytes_per_s = 1000.0
target_ms = {1 = 10.0, 5 = 14.0, 9 = 30.0}
"""


@pytest.mark.parametrize(("width", "ms"), [(1, 10.0), (3, 12.0), (5, 14.0), (7, 22.0), (9, 30.0), (11, 38.0)], ids=str)
def test_widths_between_and_beyond_lie_on_straight_lines(tmp_path: Path, width: int, ms: float) -> None:
    (tmp_path / "p.toml").write_text(GOOD)
    assert open_profile(tmp_path / "p.toml").target_s(width) == pytest.approx(ms / 1e3)


def test_times_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(GOOD)
    profile = open_profile(tmp_path / "p.toml")
    assert profile.iteration_s(4) == pytest.approx(4 * 0.002 + 0.014)
    assert profile.load_s(500) == 0.5
    assert profile.catch_up_s(6) == pytest.approx(0.003)
    assert profile.predict_s == 0.001


@pytest.mark.parametrize("name", ["jetson-orin-nano", "jetson-agx-orin"])
def test_a_load_takes_2_7_iterations_on_the_shipped_devices(name: str) -> None:
    """The one figure that the paper gives."""
    assert name in profile_names()
    profile = open_profile(name)
    assert profile.load_s(1) / profile.iteration_s(5) == pytest.approx(2.7, rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("draft_ms = 2.0", "draft_ms = -1.0", "draft_ms is -1.0"),
        ("draft_ms = 2.0", "", "draft_ms"),
        ("draft_ms = 2.0", "draft_ms = 'fast'", "draft_ms"),
        ("draft_ms = 2.0", "draft_ms = 2.0\nspeed = 1", "speed"),
        ("load_bytes_per_s = 1000.0", "", "load_ms or as load_bytes_per_s"),
        ("load_bytes_per_s = 1000.0", "load_bytes_per_s = 1.0\nload_ms = 1.0", "either"),
        ("{1 = 10.0, 5 = 14.0, 9 = 30.0}", "{}", "target_ms"),
        ("1 = 10.0", "0 = 10.0", "width 1 or more"),
        ("1 = 10.0", "one = 10.0", "int"),
        ("device", "device = ", "TOML|Invalid"),
    ],
)
def test_a_profile_that_makes_no_sense_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError, match=f"p.toml.*({said})"):
        open_profile(path)


def test_an_unknown_profile_lists_the_shipped_ones() -> None:
    with pytest.raises(ConfigError, match=r"'pi'.*jetson-orin-nano"):
        open_profile("pi")


def test_no_load_takes_no_time_unless_it_says_so() -> None:
    with pytest.raises(ConfigError, match="load"):
        DeviceProfile(device="", source="", target_ms={1: 1.0}, draft_ms=0.0, catch_up_ms=0.0, predict_ms=0.0)
