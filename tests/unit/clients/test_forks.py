"""After a fork each process sends its own events, once."""

import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from tests.fixtures.raw_server import Worst

CLIENT = Path(__file__).resolve().parents[3] / "clients" / "python"

PROGRAMS = {
    "os.fork": """
        onramp.send("x", {}, id="parent-before")
        child = os.fork()
        if child == 0:
            onramp.send("x", {}, id="child")
            assert onramp.close(60).accepted == 1
            os._exit(0)
        onramp.send("x", {}, id="parent-after")
        assert onramp.flush(60)
        assert os.waitpid(child, 0)[1] == 0
        assert onramp.close(60).accepted == 2
    """,
    "multiprocessing, without a word at its end": """
        import multiprocessing
        onramp.send("x", {}, id="parent-before")
        child = multiprocessing.get_context("fork").Process(
            target=lambda: onramp.send("x", {}, id="child"))
        child.start()
        onramp.send("x", {}, id="parent-after")
        child.join()
        assert onramp.close(60).accepted == 2
    """,
    "after the parent has sent": """
        onramp.send("x", {}, id="parent-before")
        assert onramp.flush(60)
        child = os.fork()
        onramp.send("x", {}, id="parent-after" if child else "child")
        assert onramp.close(60).accepted == (2 if child else 1)
        if child:
            assert os.waitpid(child, 0)[1] == 0
    """,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_parent_and_child_send_their_own(worst: Worst, program: str) -> None:
    begin = (
        f"import os\nfrom onramp_client import Onramp\nonramp = Onramp({worst.url!r}, linger_seconds=0.5)\n"
    )
    subprocess.run(
        [sys.executable, "-c", begin + textwrap.dedent(program)], cwd=CLIENT, check=True, timeout=200
    )
    once = Counter(event_id for ids in worst.ids for event_id in ids)
    assert once == {"parent-before": 1, "parent-after": 1, "child": 1}
    assert len({asked.peer for asked in worst.asked if "child" in asked.ids}) == 1
    childs = {asked.peer for asked in worst.asked if "child" in asked.ids}
    assert not childs & {asked.peer for asked in worst.asked if "parent-after" in asked.ids}
