"""What Spark's Python workers are forked from."""

import subprocess
import sys

_DAEMON = """
import os, sys
import services.writer.driver.worker_daemon
names = [open(f"/proc/self/task/{t}/comm").read().strip() for t in os.listdir("/proc/self/task")]
print("services.writer.settle.task" in sys.modules, *sorted(names))
"""


def test_it_has_imported_what_a_task_needs_and_has_no_thread_that_a_fork_would_lose() -> None:
    answer = subprocess.run([sys.executable, "-c", _DAEMON], capture_output=True, text=True, check=True)
    imported, *threads = answer.stdout.split()
    assert imported == "True"
    # Arrow's allocator stops its thread before a fork and begins it again.
    assert [name for name in threads if name != "jemalloc_bg_thd"] == ["python"]
