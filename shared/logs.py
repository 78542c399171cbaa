"""Logs JSON lines to standard error, in one format for the gateway, the driver and Spark's workers.

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
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from math import inf
from types import TracebackType
from typing import Any, Final

import orjson

from shared.tracebacks import without_words

log = logging.getLogger(__name__)

#: uvicorn's second copy of its messages, with terminal codes.
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
        """Return the record as a line; values without a JSON type become strings."""
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
    """Set up logging in a process without it, such as a Spark worker; costs nothing if it is set up."""
    if not logging.getLogger().handlers:
        set_up(service)


def set_up(service: str, level: str = "INFO") -> None:
    """Send all logs of this process to standard error, as JSON lines.

    This includes warnings, and the exception that ends the process or a thread.
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
    log.critical("ended by an unexpected error", exc_info=error, extra={"error": kind.__name__})


def head(service: str, logger: str, message: str) -> dict[str, Any]:
    """Return the first fields of every line, for a line at INFO written now."""
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


#: Wait for a busy reader, once and not for each line.
_PATIENCE_MS: Final = 100
_STALLED_SECONDS: Final = 5.0
_stalled_at = -inf


def write_lines(lines: Sequence[bytes]) -> int:
    """Write lines directly to standard error, several per call and each of them whole.

    Pieces have a size that a pipe writes atomically: other threads and processes write to it too. Return the
    number of
    unwritten lines: the call does not wait for a slow reader of the log.
    """
    stream = sys.__stderr__
    if stream is None:  # it was closed: its number may belong to a connection
        return 0
    file, left = stream.fileno(), len(lines)
    try:
        for piece in _pieces(lines):
            if not _takes_more(file):
                return left
            _write(file, b"".join(piece))
            left -= len(piece)
    except OSError:
        return 0
    return 0


def _pieces(lines: Sequence[bytes]) -> Iterator[list[bytes]]:
    piece: list[bytes] = []
    size = 0
    for each in lines:
        if piece and size + len(each) > select.PIPE_BUF:
            yield piece
            piece, size = [], 0
        piece.append(each)
        size += len(each)
    if piece:
        yield piece


def _takes_more(file: int) -> bool:
    """Return whether a write would not block, now or in a moment; a write to a file never does."""
    global _stalled_at  # noqa: PLW0603 - per process, like standard error
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    has_stalled = time.monotonic() < _stalled_at + _STALLED_SECONDS
    takes_more = bool(poll.poll(0 if has_stalled else _PATIENCE_MS))
    if not takes_more and not has_stalled:
        _stalled_at = time.monotonic()
    return takes_more


def _write(file: int, data: bytes) -> None:
    while (written := os.write(file, data)) < len(data):
        data = data[written:]


def _text_of(seconds: float) -> str:
    second, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{_second(second)}.{milliseconds:03d}Z"


@lru_cache(maxsize=2)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()[: -len("+00:00")]
