"""Low priority: a process lowers itself, and its session only if the session is its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_AUTOGROUP = Path("/proc/self/autogroup")
_TELL = """
import os
from shared.priority import come_last
before = os.nice(0)
come_last()
print(os.nice(0) - before, *open('/proc/self/autogroup').read().split()[-1:])
"""


@pytest.mark.skipif(not _AUTOGROUP.exists(), reason="this system does not tell sessions apart")
@pytest.mark.parametrize("is_own", [True, False])
def test_its_session_is_nice_if_it_is_its_own(*, is_own: bool) -> None:
    # Nothing where a session was begun before there were groups: a container's first one.
    of_session = ["10"] if is_own else _AUTOGROUP.read_text().split()[-1:]
    done = subprocess.run(
        [sys.executable, "-c", _TELL], capture_output=True, text=True, check=True, start_new_session=is_own
    )
    assert done.stdout.split() == [str(min(10, 19 - os.nice(0))), *of_session], done.stderr
