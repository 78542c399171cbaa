"""JSON lines on standard error, the same in the gateway, the driver and Spark's workers.

Fields come with ``extra={...}``: event_id, step, outcome, receipt.  Never a payload value,
never a secret: callers pass neither, exceptions are logged without their messages, and control
characters are escaped by JSON itself.
"""

import logging
import os
import select
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from types import TracebackType
from typing import Any, Final

import orjson

from shared.tracebacks import without_words

log = logging.getLogger(__name__)

#: uvicorn gives its messages a second time, with codes for a terminal.
_COLOURED: Final = "color_message"
_NO_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    _COLOURED,
}


class JsonFormatter(logging.Formatter):
    """Formats each record as a JSON object in one line."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line; values that JSON does not have are written as strings."""
        line: dict[str, object] = {
            "time": _text_of(record.created),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {k: v for k, v in vars(record).items() if k not in _NO_FIELDS}
        if record.exc_info and record.exc_info[1]:
            line["traceback"] = without_words(record.exc_info[1])
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def set_up_worker(service: str) -> None:
    """Set up logging in a process where nothing else has, such as a Spark worker; free when it is set up."""
    if not logging.getLogger().handlers:
        set_up(service)


def set_up(service: str, level: str = "INFO") -> None:
    """Send everything that this process logs to standard error, as JSON lines.

    So do warnings, and the exception that ends the process or a thread.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_end
    threading.excepthook = lambda args: _log_end(args.exc_type, args.exc_value, args.exc_traceback)
    for noisy in ("aiokafka", "py4j", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))


def _log_end(kind: type[BaseException], error: BaseException | None, _: TracebackType | None) -> None:
    if isinstance(error, KeyboardInterrupt):
        return
    log.critical("ended by an exception that nobody foresaw", exc_info=error, extra={"error": kind.__name__})


def head(service: str, logger: str, message: str) -> dict[str, Any]:
    """Return the fields that every line begins with, of a line at INFO that is written now."""
    return {
        "time": _text_of(time.time()),
        "level": "info",
        "service": service,
        "logger": logger,
        "message": message,
    }


def line(fields: Mapping[str, Any]) -> bytes:
    """Return `fields` as a line."""
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def write_lines(lines: Sequence[bytes]) -> None:
    """Write lines straight to standard error, several by one call and each of them whole.

    In pieces that a pipe takes whole: other threads and processes write to it too.  What cannot be
    written is lost, as all that is logged.
    """
    stream = sys.__stderr__
    if stream is None:  # it was closed: its number may be a connection's
        return
    file, piece = stream.fileno(), b""
    try:
        for each in lines:
            if piece and len(piece) + len(each) > select.PIPE_BUF:
                _write(file, piece)
                piece = b""
            piece += each
        _write(file, piece)
    except OSError:
        return


def _write(file: int, data: bytes) -> None:
    while (written := os.write(file, data)) < len(data):
        data = data[written:]


def _text_of(seconds: float) -> str:
    second, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{_second(second)}.{milliseconds:03d}Z"


@lru_cache(maxsize=2)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()[: -len("+00:00")]
