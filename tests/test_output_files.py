"""Files that were asked for: refused before the work, or there and whole."""

import os
import resource
import stat
from pathlib import Path

import pytest

from memspec_actors.errors import UsageError
from memspec_actors.output_files import check_output, make_directory, whole_file, write_whole


@pytest.mark.parametrize(
    ("place", "said"), [(".", "is a directory"), ("missing/file", "no directory"), ("taken/file", "no directory")]
)
def test_what_cannot_be_written_is_refused_before_the_work(place: str, said: str, tmp_path: Path) -> None:
    """Hours of measuring would end in an error and nothing else."""
    (tmp_path / "taken").write_text("a file")
    for refuses in (check_output, lambda path: write_whole(path, b"")):
        with pytest.raises(UsageError, match=f"{tmp_path}.* cannot be written: .*{said}"):
            refuses(tmp_path / place)
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(UsageError, match="taken"):
        make_directory(tmp_path / "taken" / "more")
    make_directory(tmp_path / "new" / "more")
    assert (tmp_path / "new" / "more").is_dir()


def test_a_directory_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs tests as root may write anywhere, hence the stand-in."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match="not writable"):
        check_output(tmp_path / "file")
    with pytest.raises(UsageError, match="not writable"):
        make_directory(tmp_path)


@pytest.mark.parametrize("ends", [ValueError, KeyboardInterrupt])
def test_work_that_breaks_off_leaves_what_was_there(ends: type[BaseException], tmp_path: Path) -> None:
    """Half of the new would have taken the place of all of the old."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(ends), whole_file(path) as file:
        file.write(b"half of the n")
        file.flush()
        raise ends
    assert path.read_bytes() == b"old" and [*tmp_path.iterdir()] == [path]
    write_whole(path, b"new")
    assert path.read_bytes() == b"new" and [*tmp_path.iterdir()] == [path]


def test_a_disk_that_is_full_is_named_by_the_file(tmp_path: Path) -> None:
    """What takes hours and writes as it goes would end in "No space left on device", and nobody knew of which."""
    path, limits = tmp_path / "file", resource.getrlimit(resource.RLIMIT_FSIZE)
    path.write_bytes(b"old")
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        for size in (11, 10**6):  # written at the end, and on the way
            with pytest.raises(UsageError, match=f"{path} cannot be written: File too large"), whole_file(path) as file:
                file.write(bytes(size))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b"old" and [*tmp_path.iterdir()] == [path]


def test_a_file_that_is_read_meanwhile_is_named_itself(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"), whole_file(tmp_path / "file"):
        (tmp_path / "missing").read_bytes()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """Whoever reads the file that it leads to would go on with the old one."""
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for content in (b"first", b"second"):
        write_whole(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == content


def test_what_is_no_regular_file_is_written_to_as_it_is(tmp_path: Path) -> None:
    """For root a file would take the place of /dev/null, for good."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"through")
    assert os.read(reader, 100) == b"through" and stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(BrokenPipeError), whole_file(pipe) as file:  # with which a command ends in silence
        os.close(reader)
        file.write(b"to nobody")
