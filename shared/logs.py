"""JSON lines on standard error, the same in the gateway, the driver and Spark's workers.

Fields come with ``extra={...}``: event_id, step, outcome, receipt.  Never a payload value,
never a secret: callers pass neither, exceptions are logged without their messages, and control
characters are escaped by JSON itself.
"""

import logging
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Final

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
            "time": _time(record.created),
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


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
