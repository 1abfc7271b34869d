"""If these fail, a bench that was ended leaves a client that keeps a core busy for ever."""

import socket
import subprocess
import sys
from threading import Thread


def test_a_client_ends_when_the_daemon_goes_away_amid_a_reply() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_by_half() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(2**16)
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

        daemon = Thread(target=answer_by_half)
        daemon.start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        command = [sys.executable, "-m", "memspec_actors.bench.http_clients", "one-by-one", address]
        client = subprocess.run(command, input="0\n", capture_output=True, text=True, timeout=60, check=False)
        daemon.join()
    assert client.returncode == 1
    assert "the daemon went away" in client.stderr
