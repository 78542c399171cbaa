"""The history of a load never claims an event that was not sent, and lacks none, after any end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from loadtest.bodies import FIRST_NUMBER
from loadtest.client_claims import Claims
from loadtest.history import OK, REFUSED, UNKNOWN, Recorder, Reporter

TIMES = (1.0, 1.1, 1.2, 99)


def test_outcomes_are_read_back_as_the_reporter_recorded_them(tmp_path: Path) -> None:
    with Recorder(tmp_path / "h", FIRST_NUMBER) as recorder:
        reporter = Reporter(recorder.address, lease=10)
        first = reporter.numbers(3)
        reporter.note(OK, first, 3, *TIMES, None, None, None)
        reporter.note(REFUSED, reporter.numbers(2), 2, *TIMES, "HTTP 422", None, None)
        reporter.note(UNKNOWN, reporter.numbers(2), 2, *TIMES, "HTTP 0", None, None)
        reporter.numbers(1)  # sent, and never answered
        reporter.close()
    claims = Claims.read(tmp_path / "h")
    assert claims.base == FIRST_NUMBER
    assert "".join(map(str, claims.states)) == "2223311100"
    assert claims.errors == {"HTTP 422": 2, "HTTP 0": 2}
    assert list(claims.requests.count) == [3, 2, 2]


def test_numbers_are_never_given_twice_and_what_a_lease_leaves_over_was_never_sent(tmp_path: Path) -> None:
    with Recorder(tmp_path / "h", FIRST_NUMBER) as recorder:
        reporter = Reporter(recorder.address, lease=5)
        firsts = [reporter.numbers(3) for _ in range(4)]
        reporter.close()
    given = {n for first in firsts for n in range(first, first + 3)}
    assert len(given) == 12
    claims = Claims.read(tmp_path / "h")
    sent = {int(n) + claims.base for n in claims.states.nonzero()[0]}
    assert sent == given


GENERATOR = """
import sys, time
from loadtest.history import OK, Reporter
reporter = Reporter(sys.argv[1], lease=10)
reporter.note(OK, reporter.numbers(2), 2, 1.0, 1.1, 1.2, 99, None, None, None)
reporter.flush()
reporter.numbers(2)
print("sent", flush=True)
time.sleep(60)
"""


def test_a_generator_that_is_killed_leaves_unknown_what_it_may_have_sent(tmp_path: Path) -> None:
    with Recorder(tmp_path / "h", FIRST_NUMBER) as recorder:
        command = [sys.executable, "-c", GENERATOR, recorder.address]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as generator:
            assert generator.stdout
            assert generator.stdout.readline() == b"sent\n"
            os.kill(generator.pid, signal.SIGKILL)
    # Its two are ok; of the eight others in its lease nobody can say.
    assert "".join(map(str, Claims.read(tmp_path / "h").states)) == "2211111111"


def test_a_lease_is_on_the_file_before_it_is_granted(tmp_path: Path) -> None:
    with Recorder(tmp_path / "h", FIRST_NUMBER) as recorder:
        reporter = Reporter(recorder.address, lease=4)
        reporter.numbers(1)
        assert Claims.read(tmp_path / "h").states.tolist() == [1, 1, 1, 1]
        reporter.close()


def test_a_torn_last_line_claims_nothing(tmp_path: Path) -> None:
    (tmp_path / "h").write_bytes(b'["lease",100000000,2]\n["ok",100000000,1,1.0,1.1,1.2,9,null,null,nu')
    assert Claims.read(tmp_path / "h").states.tolist() == [1, 1]
