"""The storage of segments: a folder, or an S3 bucket.

Owns pyarrow for this package, with its neighbour, and imports it when the first segment is used: a
service without a segment folder never loads it.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any, TypeVar

from services.admin.segments.files import CALL_SECONDS, Reader, Writer
from services.admin.segments.storage_errors import not_there, refused, unavailable
from shared import failpoints
from shared.patience import Patience, SilentError

T = TypeVar("T")


class Segments:
    """Files below a folder (a path, or a URI such as s3://bucket/path), by their names relative to it.

    Every call has a deadline; a timeout is an `InfrastructureError` too.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._opened: tuple[Any, str] | None = None
        self._patience = Patience()

    @property
    def is_waiting(self) -> bool:
        """Return whether calls have not returned: a process must not wait for them when it ends."""
        return self._patience.is_waiting

    def end(self) -> None:
        """Abandon calls in progress, and refuse later ones."""
        self._patience.end()

    @contextmanager
    def reading(self, name: str) -> Iterator[Reader]:
        """Open a file to read.  Raises `FileNotFoundError`; `InfrastructureError` if unreachable."""
        fs, base = self._open()
        try:
            raw = self._call(lambda: fs.open_input_file(f"{base}/{name}"))
        except FileNotFoundError:
            self._require_base(fs, base)
            raise
        except OSError as e:
            raise refused(e) from None
        file = Reader(self._patience, raw)
        try:
            yield file
        finally:
            file.close()

    @contextmanager
    def writing(self, name: str) -> Iterator[Writer]:
        """Open a file to write: afterwards it is whole and on the disk, or removed.

        Its name is recorded only afterwards, so a kill or a timeout leaves an unreferenced part.
        Raises `InfrastructureError`.
        """
        fs, base = self._open()
        path = f"{base}/{name}"
        sink: Writer | None = None
        try:
            if _is_local(fs):  # a bucket has no fsync
                fs.create_dir(str(PurePosixPath(path).parent), recursive=True)
            sink = Writer(self._patience, self._call(lambda: fs.open_output_stream(path)))
            try:
                yield sink
                failpoints.reach("admin.segment_unfinished")
            finally:
                sink.finish()
            if _is_local(fs):
                _sync(path)
                _sync(str(PurePosixPath(path).parent))
        except BaseException as e:
            if not (isinstance(e, SilentError) or (sink and sink.is_stuck)):
                # Finishing also completes the file of a failed write, in a bucket too.
                with suppress(OSError):
                    self._call(lambda: fs.delete_file(path))
            if isinstance(e, OSError):
                raise unavailable(e) from None
            raise

    def names(self, folder: str) -> list[str]:
        """Return the files in `folder`, unfinished ones too.  Raises `InfrastructureError`."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - see above

        fs, base = self._open()
        selector = FileSelector(f"{base}/{folder}", allow_not_found=True)
        try:
            listed = self._call(lambda: fs.get_file_info(selector))
        except OSError as e:
            raise unavailable(e) from None
        found = sorted(f"{folder}/{each.base_name}" for each in listed)
        if not (found or _is_local(fs)):  # the first write creates a folder, but no bucket
            self._require_base(fs, base)
        return found

    def remove(self, name: str) -> None:
        """Remove a file if it exists.  Raises `InfrastructureError`."""
        fs, base = self._open()
        try:
            self._call(lambda: fs.delete_file(f"{base}/{name}"))
        except FileNotFoundError:
            self._require_base(fs, base)
        except OSError as e:
            raise unavailable(e) from None

    def _open(self) -> tuple[Any, str]:
        if self._opened is None:
            from pyarrow import ArrowInvalid  # noqa: PLC0415 - see above
            from pyarrow.fs import FileSystem, LocalFileSystem  # noqa: PLC0415

            try:
                if "://" in self._where:
                    # pyarrow requests the bucket's region from AWS.
                    fs, base = self._call(lambda: FileSystem.from_uri(self._where))
                else:
                    fs, base = LocalFileSystem(), os.path.abspath(self._where)  # noqa: PTH100 - as pyarrow's
            except (OSError, ArrowInvalid) as e:
                raise unavailable(e) from None
            self._opened = fs, base.rstrip("/")
        return self._opened

    def _require_base(self, fs: Any, base: str) -> None:
        """Raise `InfrastructureError` if the folder is not mounted, or the bucket does not exist.

        A bucket has no folders: the prefix does not exist while it has no file.
        """
        from pyarrow.fs import FileType  # noqa: PLC0415 - see above

        bucket = "" if _is_local(fs) else base.partition("/")[0]
        try:
            found = self._call(lambda: fs.get_file_info(bucket or base))
        except OSError as e:
            raise unavailable(e) from None
        if found.type == FileType.NotFound:
            raise not_there(bucket)

    def _call(self, act: Callable[[], T]) -> T:
        return self._patience.call(act, CALL_SECONDS)


def _is_local(fs: Any) -> bool:
    return bool(fs.type_name == "local")


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
