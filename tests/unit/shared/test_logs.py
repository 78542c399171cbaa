import io
import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shared import logs
from shared.errors import BAD_ENVELOPE, UserError

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """The log of the test, as parsed lines; the root logger is restored."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    root = logging.getLogger()
    before = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("aiokafka", "py4j", "asyncio")}
    hooks = sys.excepthook, threading.excepthook
    logs.set_up("ingest")
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:], root.level = before[0], before[1]
    sys.excepthook, threading.excepthook = hooks
    logging.captureWarnings(capture=False)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_a_line_has_its_words_and_fields(lines: Lines) -> None:
    logging.getLogger("services.ingest.x").warning("rejected", extra={"event_id": "a-1", "step": "check"})
    (line,) = lines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "warning",
        "service": "ingest",
        "logger": "services.ingest.x",
        "message": "rejected",
        "event_id": "a-1",
        "step": "check",
    }


def test_control_characters_cannot_forge_a_line(lines: Lines) -> None:
    logging.getLogger("x").warning('a\r\n{"level":"error"}\x1b[31m', extra={"event_id": "b\nc"})
    (line,) = lines()
    assert line["event_id"] == "b\nc"


def test_a_traceback_is_a_field(lines: Lines) -> None:
    try:
        int("boom")
    except ValueError:
        logging.getLogger("x").exception("failed")
    (line,) = lines()
    assert line["traceback"].endswith("\nValueError")
    assert "in test_a_traceback_is_a_field" in line["traceback"]


def test_uncaught_exceptions_of_processes_and_threads_and_warnings_are_logged(lines: Lines) -> None:
    secret = "a-secret"

    def fails() -> None:
        raise ValueError(secret)  # by its name: a traceback has the line itself

    thread = threading.Thread(target=fails)
    thread.start()
    thread.join()
    try:
        fails()
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning("old", DeprecationWarning, __file__, 1)
    *ended, warned = lines()
    assert [(line["level"], line["error"]) for line in ended] == [("critical", "ValueError")] * 2
    assert "a-secret" not in str(ended)
    assert warned["logger"] == "py.warnings"


def test_a_message_is_there_once_and_without_codes_for_a_terminal(lines: Lines) -> None:
    logging.getLogger("uvicorn.error").info("Started", extra={"color_message": "\x1b[36mStarted"})
    (line,) = lines()
    assert line["message"] == "Started"
    assert "color_message" not in line


def _fails_at(value: str) -> None:
    try:
        int(value)
    except ValueError as e:
        e.add_note(value)
        raise ExceptionGroup(value, [KeyError(value), *[e] * 2]) from UnicodeError(value)


def test_no_words_of_an_exception_are_logged(lines: Lines) -> None:
    spark = type("PythonException", (Exception,), {"__module__": "pyspark.errors.exceptions.captured"})
    text = 'Traceback:\n  File "/opt/task.py", line 17, in take\nValueError: a-secret\n'
    secret = text.rsplit(maxsplit=1)[-1]  # a traceback has the lines of code
    for fails in (lambda: _fails_at(secret), lambda: _raise(spark(text))):
        try:
            fails()
        except Exception:
            logging.getLogger("x").exception("failed")
    told, of_spark = (line["traceback"] for line in lines())
    assert secret not in told + of_spark
    assert {"UnicodeError", "ExceptionGroup", "KeyError", "ValueError"} <= set(told.split("\n"))
    assert 'File "/opt/task.py", line 17, in take\nValueError' in of_spark


def _raise(error: Exception) -> None:
    raise error


def test_message_of_an_onramp_error_is_logged(lines: Lines) -> None:
    try:
        _raise(UserError(BAD_ENVELOPE, "metadata is missing"))
    except UserError:
        logging.getLogger("x").exception("failed")
    (line,) = lines()
    assert "bad_envelope: metadata is missing" in line["traceback"]


def test_fields_that_json_does_not_know_are_written_as_text(lines: Lines) -> None:
    logging.getLogger("x").warning("odd", extra={"thing": object, 3: {1: "one"}})
    (line,) = lines()
    assert line["thing"] == "<class 'object'>"


def test_libraries_are_quiet_below_warning(lines: Lines) -> None:
    logging.getLogger("aiokafka").info("chatter")
    logging.getLogger("services.x").info("said")
    assert [line["message"] for line in lines()] == ["said"]
