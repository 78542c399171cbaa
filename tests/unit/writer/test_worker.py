"""The daemon from which Spark forks its Python workers."""

import os
import socket
import struct
import subprocess
import sys
import tempfile
from typing import Any

import orjson

_DAEMON = """
import os, sys
from services.writer.driver import worker_daemon
names = [open(f"/proc/self/task/{t}/comm").read().strip() for t in os.listdir("/proc/self/task")]
print("services.writer.settle.task" in sys.modules, *sorted(names), flush=True)
worker_daemon.run()
"""


def test_it_has_imported_what_a_task_needs_and_logs_a_worker_that_fails_as_one_line() -> None:
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket has at most 107 characters
        said = _failure(folder)
    assert (said["level"], said["service"], said["error"]) == ("error", "writer", "BrokenPipeError")
    assert said["traceback"].endswith("\nBrokenPipeError")


def _failure(folder: str) -> Any:
    env = os.environ | {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": folder,
        "SPARK_BUFFER_SIZE": "64",
    }
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", _DAEMON]
    with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as p:
        assert p.stdin
        assert p.stdout
        assert p.stderr
        imported, *threads = p.stdout.readline().decode().split()
        assert imported == "True"
        # Arrow's allocator stops its thread before a fork and begins it again: no other would be lost.
        assert [name for name in threads if name != "jemalloc_bg_thd"] == ["python"]
        (length,) = struct.unpack("!i", p.stdout.read(4))
        with socket.socket(socket.AF_UNIX) as spark:
            spark.connect(p.stdout.read(length))
            assert len(spark.recv(4)) == 4  # the worker's process
            spark.sendall(struct.pack("!i", 0) + b"x")  # a task that ends early, and nobody who is told so
        line = p.stderr.readline()
        said = orjson.loads(line)
        p.stdin.close()
        assert p.stderr.read() == b""
    return said
