"""Where the daemon listens: if these fail, it hangs at its start, or takes another daemon's place."""

import socket
from pathlib import Path

import pytest

from memspec_actors.config import ServeConfig
from memspec_actors.daemon.http.listening import listen
from memspec_actors.errors import ConfigError


def test_a_daemon_that_is_overrun_keeps_its_socket(tmp_path: Path) -> None:
    """Asking it whether it is alive would hang for as long as its queue of connections is full."""
    path = str(tmp_path / "memspec.sock")
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as waiting:
        other.bind(path)
        other.listen(0)
        waiting.connect(path)
        with pytest.raises(ConfigError, match=r"memspec\.sock.*cannot listen there"), listen(ServeConfig(uds=path)):
            pass
    assert Path(path).exists()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "memspec.sock"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="cannot listen there"), listen(ServeConfig(uds=str(path))):
        pass
    assert path.read_text() == "precious"


@pytest.mark.parametrize("host", ["no..name", f"{'x' * 64}.example"])
def test_what_is_no_address_is_refused_by_its_name(host: str) -> None:
    """Some of them fail before anybody is asked for their address, as no error of the system's."""
    with pytest.raises(ConfigError, match=f"host '{host}'.*cannot listen there"), listen(ServeConfig(host=host)):
        pass


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_small_pieces_are_sent_at_once(host: str) -> None:
    """Every reply, and every stream's first token, would wait 40 ms for an acknowledgement."""
    try:
        with listen(ServeConfig(host=host, port=0)) as listener:
            with socket.create_connection(listener.getsockname()[:2]):
                accepted, _ = listener.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    except ConfigError:
        assert host == "::1"
        pytest.skip("this machine has no IPv6")
