"""Files as Parquet reads and writes them, whose every call to a folder or a bucket has an end.

What a call raises is raised here as what it is to whoever reads: so an error of the bucket is never taken for
one of the file's content.
"""

import io
from collections.abc import Callable
from typing import Any, Final

from services.admin.segments.storage_errors import refused, unavailable
from services.admin.segments.timeouts import Patience, SilentError
from shared.errors import InfrastructureError

#: Of a call that reads about a megabyte, or asks for less.
CALL_SECONDS: Final = 10.0
#: Of one that hands over what is written; a bucket's uploads it meanwhile.
_WRITE_SECONDS: Final = 60.0
#: Of the last one: a bucket has what was written then.
_CLOSE_SECONDS: Final = 300.0


class Reader:
    """A file that is read; its calls raise `FileNotFoundError` and `InfrastructureError`."""

    mode = "rb"

    def __init__(self, patience: Patience, raw: Any) -> None:
        self._patience = patience
        self._raw = raw
        self._size: int = raw.size()
        self._at = 0
        self.closed = False

    def read(self, count: int = -1) -> bytes:
        """Return the next `count` bytes, fewer at the end; all that are left if it is negative."""
        left = max(0, self._size - self._at)
        wanted, at, raw = left if count < 0 else min(count, left), self._at, self._raw
        try:
            found: bytes = self._patience.call(lambda: raw.read_at(wanted, at), CALL_SECONDS)
        except OSError as e:
            raise refused(e) from None
        self._at += len(found)
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to `offset` from the start, from here or from the end."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """Return where it is."""
        return self._at

    def close(self) -> None:
        """Read no more."""
        self.closed = True
        self._raw = None


class Writer:
    """A file that is written.  After a call that failed nothing more is written to it."""

    mode = "wb"

    def __init__(self, patience: Patience, raw: Any) -> None:
        self._patience = patience
        self._raw = raw
        self._at = 0
        self._failed: InfrastructureError | None = None
        #: Whether a call is still under way: nothing else is to be asked of the file.
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
        """Do nothing: what is written is there when it is finished."""

    def tell(self) -> int:
        """Return how much was written."""
        return self._at

    def close(self) -> None:
        """Do nothing: it is finished by whoever opened it."""

    def finish(self) -> None:
        """Have the file, as far as it was written.  Raises `InfrastructureError`: it is not whole."""
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
