"""The process of an author's function: each event has one result, also if the process ends."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest

from services.transform.function.lookups import RepeatedKeyError, snapshot_of, table_of
from services.transform.function.results import Dropped, Failure, FunctionResult, OutputEvent, Outputs
from services.transform.function.runner import FunctionRunner
from services.transform.function.runner_cache import RunnerCache
from services.transform.function.transform_code import TransformCode
from shared.errors import (
    TRANSFORM_BAD_OUTPUT,
    TRANSFORM_CRASHED,
    TRANSFORM_FAILED,
    TRANSFORM_MEMORY,
    TRANSFORM_TIMEOUT,
    TRANSFORM_TOO_MANY_OUTPUTS,
)
from shared.registry.transforms import TransformLimits, digest_of_source

SOURCE = """\
import collections, ctypes, itertools, logging, os, resource, signal, sys, time

calls = 0


def transform(event, lookup):
    global calls
    calls += 1
    payload = event["payload"]
    if "do" in payload:
        return globals()[payload["do"]](payload, lookup)
    return {"event_name": "made", "payload": payload}


def drop(payload, lookup):
    return None


def empty(payload, lookup):
    return []


def two(payload, lookup):
    return [{"event_name": "made", "payload": {"n": n}} for n in range(2)]


def fail(payload, lookup):
    raise ValueError("a secret of the event")


def exit_by_exception(payload, lookup):
    raise SystemExit(4)


def number(payload, lookup):
    return 7


def fields(payload, lookup):
    return {"event_name": "made", "payload": {}, "id": "x"}


def not_json(payload, lookup):
    return {"event_name": "made", "payload": {"set": {1}}}


def not_a_number(payload, lookup):
    return {"event_name": "made", "payload": {"n": float("nan")}}


def large(payload, lookup):
    return {"event_name": "made", "payload": {"text": "x" * 2_000_000}}


def many(payload, lookup):
    return [{"event_name": "made", "payload": {}}] * 101


def loop(payload, lookup):
    while True:
        pass


def stubborn(payload, lookup):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


def loop_in_c(payload, lookup):
    collections.deque(itertools.repeat(0), maxlen=0)


def sleep(payload, lookup):
    time.sleep(1000)


def exit_now(payload, lookup):
    os._exit(3)


def exit_with_another_index(payload, lookup):
    frame = sys._getframe()
    while "current" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["current"][0] = 1 << 40
    os._exit(3)


def crash(payload, lookup):
    ctypes.string_at(0)


def kill(payload, lookup):
    os.kill(os.getpid(), signal.SIGKILL)


def allocate(payload, lookup):
    bytearray(1 << 34)


def crash_after_another(payload, lookup):
    if calls > 1:
        os._exit(1)
    return two(payload, lookup)


def look_up(payload, lookup):
    row = lookup(payload["table"], payload["key"])
    if row:
        copy = dict(row)
        row.clear()
        row = copy
    return {"event_name": "made", "payload": {"row": row}}


def speak(payload, lookup):
    for n in range(payload.get("lines", 1)):
        print("printed", n)
    logging.warning("logged %s", payload.get("text", ""))


def surroundings(payload, lookup):
    with open("/proc/self/status") as status:
        fields = dict(line.rstrip().split(":", 1) for line in status)
    try:
        os.write(os.open("/tmp/onramp-transform-test", os.O_CREAT | os.O_WRONLY), b"x")
        written = True
    except OSError as e:
        written = e.errno
    finally:
        os.unlink("/tmp/onramp-transform-test")
    return {"event_name": "made", "payload": {
        "environment": sorted(set(os.environ) - {"LC_CTYPE"}),
        "is_isolated": sys.flags.isolated,
        "no_new_privs": fields["NoNewPrivs"].strip(),
        "memory": resource.getrlimit(resource.RLIMIT_AS),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "written": written,
    }}


def process(payload, lookup):
    return {"event_name": "made", "payload": {"pid": os.getpid(), "calls": calls}}
"""


def code_of(source: str = SOURCE, **limits: int) -> TransformCode:
    return TransformCode("delays", source, digest_of_source(source), TransformLimits.model_validate(limits))


def event(number: int = 0, **payload: Any) -> bytes:
    metadata = {"id": f"e{number}", "timestamp": "2026-01-01T00:00:00Z", "version": "1"}
    return orjson.dumps({"metadata": metadata, "event_name": "read", "payload": payload})


def payloads(result: FunctionResult) -> list[Any]:
    assert isinstance(result, Outputs), result
    return [orjson.loads(each.payload) for each in result.items]


def failure(result: FunctionResult) -> Failure:
    assert isinstance(result, Failure), result
    return result


def line_of(text: str) -> int:
    return SOURCE[: SOURCE.index(text)].count("\n") + 1


@pytest.fixture(scope="module")
def shared_runner() -> Iterator[FunctionRunner]:
    """A runner whose process is shared by tests that do not end it."""
    runner = FunctionRunner(code_of(cpu_ms=10_000), {})
    yield runner
    runner.close()


@pytest.fixture
def runner() -> Iterator[FunctionRunner]:
    """A runner of its own with a short limit."""
    runner = FunctionRunner(code_of(cpu_ms=20), {})
    yield runner
    runner.close()


def test_each_event_has_its_result_in_order(shared_runner: FunctionRunner) -> None:
    kinds = ["drop", "empty", "two", "fail"]
    events = [event(n, do=kind) for n, kind in enumerate(kinds)]
    dropped, empty, two, failed, plain = shared_runner.run([*events, event(9, a=1)])
    assert (dropped, empty) == (Dropped(), Dropped())
    assert payloads(two) == [{"n": 0}, {"n": 1}]
    assert plain == Outputs((OutputEvent("made", b'{"a":1}'),))
    assert failure(failed).error is TRANSFORM_FAILED
    assert shared_runner.run([]) == []
    assert shared_runner.deaths == 0


def test_a_failure_names_exception_function_and_line(shared_runner: FunctionRunner) -> None:
    (result,) = shared_runner.run([event(do="fail")])
    failed = failure(result)
    assert (failed.exception, failed.function, failed.line) == (
        "ValueError",
        "fail",
        line_of("raise ValueError"),
    )
    assert failed.message == "a secret of the event"
    assert "child_program.py" not in failed.traceback
    assert 'raise ValueError("a secret of the event")' in failed.traceback


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("exit_by_exception", TRANSFORM_FAILED, "4"),
        ("number", TRANSFORM_BAD_OUTPUT, "transform() returned int; expected None, a dict, or a list"),
        ("fields", TRANSFORM_BAD_OUTPUT, "an output has the fields event_name, id, payload; expected"),
        ("not_json", TRANSFORM_BAD_OUTPUT, "an output is not JSON: "),
        ("large", TRANSFORM_BAD_OUTPUT, "an output has 2,000,0"),
        ("many", TRANSFORM_TOO_MANY_OUTPUTS, "101 outputs; the limit is 100"),
        ("allocate", TRANSFORM_MEMORY, ""),
    ],
)
def test_a_wrong_result_fails_its_event_alone(
    shared_runner: FunctionRunner, kind: str, error: object, message: str
) -> None:
    before, wrong, after = shared_runner.run([event(1, n=1), event(2, do=kind), event(3, n=3)])
    assert (payloads(before), payloads(after)) == ([{"n": 1}], [{"n": 3}])
    assert failure(wrong).error is error
    assert message in failure(wrong).message
    assert shared_runner.deaths == 0


def test_not_a_number_is_null(shared_runner: FunctionRunner) -> None:
    assert payloads(shared_runner.run([event(do="not_a_number")])[0]) == [{"n": None}]


@pytest.mark.parametrize(
    ("kind", "error", "exception", "line"),
    [
        ("stubborn", TRANSFORM_TIMEOUT, "Timeout", True),
        ("loop_in_c", TRANSFORM_TIMEOUT, "Timeout", True),
        ("sleep", TRANSFORM_TIMEOUT, "Timeout", True),
        ("exit_now", TRANSFORM_CRASHED, "Exit", False),
        ("crash", TRANSFORM_CRASHED, "SIGSEGV", True),
        ("kill", TRANSFORM_MEMORY, "Killed", False),
    ],
)
def test_a_death_fails_its_event_alone(
    runner: FunctionRunner, kind: str, error: object, exception: str, line: bool
) -> None:
    before, wrong, after = runner.run([event(1, n=1), event(2, do=kind), event(3, n=3)])
    assert (payloads(before), payloads(after)) == ([{"n": 1}], [{"n": 3}])
    failed = failure(wrong)
    assert (failed.error, failed.exception) == (error, exception)
    assert (failed.function, failed.line is not None) == ((kind, True) if line else ("", False))
    assert runner.deaths == 2


def test_a_loop_ends_without_the_death_of_the_process(runner: FunctionRunner) -> None:
    first, looping, last = runner.run([event(1, do="process"), event(2, do="loop"), event(3, do="process")])
    failed = failure(looping)
    assert (failed.error, failed.exception, failed.function) == (TRANSFORM_TIMEOUT, "TimeLimitError", "loop")
    assert failed.line in {line_of("while True:\n        pass"), line_of("while True:\n        pass") + 1}
    assert payloads(first)[0]["pid"] == payloads(last)[0]["pid"]
    assert runner.deaths == 0


def test_an_event_that_only_dies_after_another_succeeds_alone(runner: FunctionRunner) -> None:
    results = runner.run([event(1, n=1), event(2, do="crash_after_another"), event(3, do="process")])
    assert payloads(results[1]) == [{"n": 0}, {"n": 1}]
    assert payloads(results[2])[0]["calls"] == 3  # the process of the second try, and of the event before
    assert runner.deaths == 1


def test_a_wrong_index_in_shared_memory_fails_no_other_event(runner: FunctionRunner) -> None:
    events = [event(1, n=1), event(2, do="exit_with_another_index"), event(3, n=3)]
    before, wrong, after = runner.run(events)
    assert (payloads(before), payloads(after)) == ([{"n": 1}], [{"n": 3}])
    assert failure(wrong).error is TRANSFORM_CRASHED


def test_a_run_ends_after_the_maximum_of_deaths(runner: FunctionRunner) -> None:
    events = [event(n, do="exit_now") for n in range(4)]
    results = runner.run(events, max_deaths=3)
    assert [failure(each).error for each in results] == [TRANSFORM_CRASHED] * 2
    assert len(runner.run(events[2:])) == 2


def test_the_process_has_limits_and_an_empty_environment(shared_runner: FunctionRunner) -> None:
    (found,) = payloads(shared_runner.run([event(do="surroundings")])[0])
    assert found == {
        "environment": [],
        "is_isolated": 1,
        "no_new_privs": "1",
        "memory": [512 << 20, 512 << 20],
        "files": [64, 64],
        "core": [0, 0],
        "written": 27,
    }


def test_a_killed_idle_process_is_replaced_without_a_failure(runner: FunctionRunner) -> None:
    (first,) = payloads(runner.run([event(do="process")])[0])
    os.kill(first["pid"], 9)
    os.waitid(os.P_PID, first["pid"], os.WEXITED | os.WNOWAIT)
    (second,) = payloads(runner.run([event(do="process")])[0])
    assert second["pid"] != first["pid"]
    assert runner.deaths == 0


def test_prints_and_logging_are_captured_with_the_event(shared_runner: FunctionRunner) -> None:
    shared_runner.take_logs()
    shared_runner.run([event(1), event(2, do="speak", text="x" * 3000)])
    lines, suppressed = shared_runner.take_logs()
    assert [(each.event_id, each.level, each.text[:9]) for each in lines] == [
        ("e2", "info", "printed 0"),
        ("e2", "warning", "logged xx"),
    ]
    assert len(lines[1].text) == 2000
    assert {each.digest for each in lines} == {digest_of_source(SOURCE)}
    assert suppressed == 0
    assert shared_runner.take_logs() == ([], 0)


def test_lines_above_a_hundred_a_second_are_counted(shared_runner: FunctionRunner) -> None:
    shared_runner.take_logs()
    shared_runner.run([event(do="speak", lines=1000)])
    lines, suppressed = shared_runner.take_logs()
    assert len(lines) + suppressed == 1001
    assert len(lines) <= 300


@pytest.mark.parametrize(
    ("source", "exception", "line"),
    [
        ("import absent_package\n", "ModuleNotFoundError", 1),
        ("\ndef transform(event, lookup)\n", "SyntaxError", 2),
        ("transform = 3\n", "TypeError", None),
    ],
)
def test_a_source_that_cannot_be_loaded_fails_each_event(
    source: str, exception: str, line: int | None
) -> None:
    runner = FunctionRunner(code_of(source), {})
    results = [failure(each) for each in runner.run([event(1), event(2)])]
    runner.close()
    assert [(each.error, each.exception, each.line) for each in results] == [
        (TRANSFORM_FAILED, exception, line)
    ] * 2


def test_a_source_that_ends_its_process_fails_each_event() -> None:
    runner = FunctionRunner(code_of("import os\nos._exit(5)\n"), {})
    results = [failure(each) for each in runner.run([event(1), event(2)])]
    assert [(each.error, each.message) for each in results] == [
        (TRANSFORM_CRASHED, "the process ended with exit code 5")
    ] * 2
    assert runner.deaths == 2


def test_lookups_are_read_by_key_and_swapped_between_batches(shared_runner: FunctionRunner) -> None:
    table = table_of("airlines", {"UA": {"name": "United"}, "1": {"name": "One"}})
    shared_runner.set_lookups({"airlines": table})
    events = [event(do="look_up", table="airlines", key=key) for key in ("UA", "UA", 1, "XX", None)]
    rows = [payloads(each)[0]["row"] for each in shared_runner.run(events)]
    assert rows == [{"name": "United"}, {"name": "United"}, {"name": "One"}, None, None]
    shared_runner.set_lookups({"airlines": table_of("airlines", {"UA": {"name": "Untied"}})})
    assert payloads(shared_runner.run(events[:1])[0]) == [{"row": {"name": "Untied"}}]
    (unknown,) = shared_runner.run([event(do="look_up", table="towns", key="x")])
    assert failure(unknown).message == "the transform has no lookup 'towns'; it has: airlines"


def test_a_large_lookup_is_a_file(
    shared_runner: FunctionRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table = snapshot_of("towns", ((f"k{n}", f'{{"n":{n}}}') for n in range(20)), max_dict_rows=10)
    assert (table.is_file, table.rows) == (True, 20)
    shared_runner.set_lookups({"towns": table})
    events = [event(do="look_up", table="towns", key=key) for key in ("k3", "k19", "k20")]
    assert [payloads(each)[0]["row"] for each in shared_runner.run(events)] == [{"n": 3}, {"n": 19}, None]


def test_equal_rows_have_one_digest_in_any_order() -> None:
    rows = [("b", "2"), ("a", "1")]
    for most in (1, 10):
        assert snapshot_of("t", rows, most).digest == snapshot_of("t", rows[::-1], most).digest
        assert snapshot_of("t", rows, most).digest != snapshot_of("t", [("b", "2"), ("a", "3")], most).digest


def test_a_repeated_key_is_refused() -> None:
    for most in (1, 10):
        with pytest.raises(RepeatedKeyError):
            snapshot_of("t", [("a", "1"), ("b", "2"), ("b", "3")], most)


def test_the_process_ends_with_the_thread_that_started_it() -> None:
    with ThreadPoolExecutor(1) as pool:
        runner = pool.submit(lambda: FunctionRunner(code_of(), {})).result()
        (found,) = payloads(pool.submit(runner.run, [event(do="process")]).result()[0])
        pid = found["pid"]
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    runner.close()


def test_runners_keep_processes_across_threads_and_end_the_oldest() -> None:
    runners = RunnerCache(max_processes=2)
    codes = [code_of(SOURCE + "#" * n) for n in range(3)]

    def pid_of(code: TransformCode) -> Any:
        pids: list[Any] = []
        thread = threading.Thread(
            target=lambda: pids.append(payloads(runners.of(code, {}).run([event(do="process")])[0])[0]["pid"])
        )
        thread.start()
        thread.join()
        return pids[0]

    first = pid_of(codes[0])
    assert pid_of(codes[0]) == first
    others = [pid_of(code) for code in codes[1:]]
    assert not Path(f"/proc/{first}").exists()
    assert [pid_of(code) for code in codes[1:]] == others
    runners.close_idle(time.monotonic() + 61)
    assert not any(Path(f"/proc/{pid}").exists() for pid in others)
    runners.close()


def test_another_environment_runs_the_function(tmp_path: Path) -> None:
    """An environment need not have Onramp or orjson."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', "utf-8")
    python.chmod(0o755)
    runner = FunctionRunner(
        code_of()._replace(environment=str(python)), {"t": table_of("t", {"a": {"n": 1}})}
    )
    kinds = ["two", "not_json", "not_a_number", "drop"]
    two, not_json, nan, dropped = runner.run([event(do=kind) for kind in kinds])
    row = runner.run([event(do="look_up", table="t", key="a")])[0]
    runner.close()
    assert payloads(two) == [{"n": 0}, {"n": 1}]
    assert failure(not_json).error is TRANSFORM_BAD_OUTPUT
    assert (payloads(nan), dropped, payloads(row)) == ([{"n": None}], Dropped(), [{"row": {"n": 1}}])


def test_a_missing_environment_is_an_error_of_the_system() -> None:
    runner = FunctionRunner(code_of()._replace(environment="/absent/python"), {})
    with pytest.raises(FileNotFoundError):
        runner.run([event()])
