"""Files for Parquet, with a deadline on every call to a folder or a bucket.

A call's error is raised as a storage error, so an error of the bucket is never mistaken for one of the file's
content.
"""

import io
from collections.abc import Callable
from typing import Any, Final

from services.admin.segments.storage_errors import refused, unavailable
from shared.errors import InfrastructureError
from shared.patience import Patience, SilentError

#: Seconds for a call that reads about a megabyte, or metadata.
CALL_SECONDS: Final = 10.0
#: Seconds for a write; a bucket's file uploads in the background.
_WRITE_SECONDS: Final = 60.0
#: Seconds for the final call, after which a bucket has the whole file.
_CLOSE_SECONDS: Final = 300.0


class Reader:
    """A file for reading; its calls raise `FileNotFoundError` and `InfrastructureError`."""

    mode = "rb"

    def __init__(self, patience: Patience, raw: Any) -> None:
        self._patience = patience
        self._raw = raw
        self._size: int = raw.size()
        self._at = 0
        self.closed = False

    def read(self, count: int = -1) -> bytes:
        """Return the next `count` bytes, fewer at the end; all remaining bytes if it is negative."""
        left = max(0, self._size - self._at)
        wanted, at, raw = left if count < 0 else min(count, left), self._at, self._raw
        try:
            found: bytes = self._patience.call(lambda: raw.read_at(wanted, at), CALL_SECONDS)
        except OSError as e:
            raise refused(e) from None
        self._at += len(found)
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to `offset` from the start, the position or the end."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._raw = None


class Writer:
    """A file for writing.  After a failed call nothing more is written to it."""

    mode = "wb"

    def __init__(self, patience: Patience, raw: Any) -> None:
        self._patience = patience
        self._raw = raw
        self._at = 0
        self._failed: InfrastructureError | None = None
        #: Whether a call is still in progress: then no other call may be made.
        self.is_stuck = False
        self.closed = False

    def write(self, data: Any) -> int:
        """Write bytes.  Raises `InfrastructureError`, once: Parquet adds its footer, which is dropped."""
        if self._failed is None:
            raw = self._raw
            self._ask(lambda: raw.write(data), _WRITE_SECONDS)
            self._require_whole()
        self._at += len(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: `finish` makes the data durable."""

    def tell(self) -> int:
        """Return the number of written bytes."""
        return self._at

    def close(self) -> None:
        """Do nothing: `Segments.writing` finishes the file."""

    def finish(self) -> None:
        """Complete the file.  Raises `InfrastructureError` if it is not whole."""
        self.closed = True
        raw, self._raw = self._raw, None
        if not self.is_stuck:
            self._ask(raw.close, _CLOSE_SECONDS)
        self._require_whole()

    def _ask(self, act: Callable[[], object], seconds: float) -> None:
        try:
            self._patience.call(act, seconds)
        except OSError as e:
            self.is_stuck = isinstance(e, SilentError)
            self._failed = self._failed or unavailable(e)

    def _require_whole(self) -> None:
        if self._failed:
            raise self._failed
