"""The writer as a process: a startup failure ends with a one-sentence error and no traceback."""

import json
import os
import socket
import subprocess
import sys


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ONRAMP_")},
            "ONRAMP_WRITER_DSN": "postgresql://nobody@127.0.0.1:1/none",
            "ONRAMP_WRITER_HTTP_PORT": str(port),
        }
        command = [sys.executable, "-m", "services.writer"]
        ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    *_, last = (json.loads(line) for line in ended.stderr.splitlines())
    assert ended.returncode == 2
    assert last["message"] == "a setting is wrong: the writer does not start"
    assert f"127.0.0.1:{port} (Address already in use)" in last["reason"]
    assert "ONRAMP_WRITER_HTTP_PORT" in last["reason"]
    assert "Traceback" not in ended.stderr
