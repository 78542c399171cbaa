"""Where segments are: a folder, or a bucket that speaks S3.

Owns pyarrow for this room, with the file beside it, and imports it when the first segment is touched: a
service that has no folder for segments never loads it.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any, Final

from shared.errors import STORE_UNAVAILABLE, InfrastructureError

#: What a bucket's server, or the way to it, refuses by: NO_SUCH_BUCKET, ACCESS_DENIED, NETWORK_CONNECTION;
#: where the library has no word, UNKNOWN and the status.
_S3_CODE: Final = re.compile(r"AWS Error ([A-Z_]{1,50}(?: \(HTTP status \d{3}\))?) during ")
_NO_BUCKET: Final = "there is no bucket {}: make it (nothing here makes one), or correct ONRAMP_ADMIN_STORE"
_RIGHTS: Final = (
    "correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or let that key list, read, write and delete"
)
#: What to do about it.
_ADVICE: Final = {
    "NO_SUCH_BUCKET": "make the bucket (nothing here makes one), or correct ONRAMP_ADMIN_STORE",
    "ACCESS_DENIED": _RIGHTS,
    "INVALID_ACCESS_KEY_ID": _RIGHTS,
    "SIGNATURE_DOES_NOT_MATCH": _RIGHTS,
    "NETWORK_CONNECTION": "see that the server of the bucket answers from here, at the address that "
    "ONRAMP_ADMIN_STORE has",
}


class Segments:
    """Files below a folder (a path, or a URI such as s3://bucket/path), by their names relative to it."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._opened: tuple[Any, str] | None = None

    @contextmanager
    def reading(self, name: str) -> Iterator[Any]:
        """Open a file to read.  Raises `FileNotFoundError`, and `InfrastructureError`: the folder is away."""
        fs, base = self._open()
        try:
            file = fs.open_input_file(f"{base}/{name}")
        except FileNotFoundError:
            self._require_base(fs, base)
            raise
        except OSError as e:
            raise unavailable(e) from None
        with file:
            yield file

    @contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        """Open a file to write: afterwards it is whole and on the disk, or gone.

        Nobody knows its name before, so a kill leaves a part that nobody reads.
        Raises `InfrastructureError`.
        """
        fs, base = self._open()
        path = f"{base}/{name}"
        try:
            if _is_local(fs):  # a bucket has none
                fs.create_dir(str(PurePosixPath(path).parent), recursive=True)
            with fs.open_output_stream(path) as sink:
                yield sink
            if _is_local(fs):
                _sync(path)
                _sync(str(PurePosixPath(path).parent))
        except BaseException as e:
            # Closing completes the file of whatever failed, in a bucket too.
            with suppress(OSError):
                fs.delete_file(path)
            if isinstance(e, OSError):
                raise unavailable(e) from None
            raise

    def names(self, folder: str) -> list[str]:
        """Return the files in `folder`, unfinished ones too.  Raises `InfrastructureError`."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - see above

        fs, base = self._open()
        try:
            selector = FileSelector(f"{base}/{folder}", allow_not_found=True)
            found = sorted(f"{folder}/{each.base_name}" for each in fs.get_file_info(selector))
        except OSError as e:
            raise unavailable(e) from None
        if not (found or _is_local(fs)):  # a folder is made by the first who writes, a bucket is not
            self._require_base(fs, base)
        return found

    def remove(self, name: str) -> None:
        """Remove a file; one that is not there is removed.  Raises `InfrastructureError`."""
        fs, base = self._open()
        try:
            fs.delete_file(f"{base}/{name}")
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
                    fs, base = FileSystem.from_uri(self._where)
                else:
                    fs, base = LocalFileSystem(), os.path.abspath(self._where)  # noqa: PTH100 - as pyarrow's
            except (OSError, ArrowInvalid) as e:
                raise unavailable(e) from None
            self._opened = fs, base.rstrip("/")
        return self._opened

    def _require_base(self, fs: Any, base: str) -> None:
        """Tell a file that is lost from a folder that is not mounted, or a bucket that is not there.

        A bucket has no folders: ours is not there while no file is in it.
        """
        from pyarrow.fs import FileType  # noqa: PLC0415 - see above

        bucket = base.partition("/")[0]
        try:
            found = fs.get_file_info(base if _is_local(fs) else bucket)
        except OSError as e:
            raise unavailable(e) from None
        if found.type == FileType.NotFound:
            what = (
                "the folder itself is not there: is it mounted?"
                if _is_local(fs)
                else _NO_BUCKET.format(bucket)
            )
            raise InfrastructureError(STORE_UNAVAILABLE, what)


def _is_local(fs: Any) -> bool:
    return bool(fs.type_name == "local")


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def require_there(error: Exception) -> None:
    """Raise `InfrastructureError` where a read failed for the folder's sake; else it is the file's own."""
    if getattr(error, "errno", None) or _S3_CODE.search(str(error)):
        raise unavailable(error) from None


def unavailable(error: Exception) -> InfrastructureError:
    """Return it without the words of a library, which may name credentials."""
    number = getattr(error, "errno", None)
    if number:
        said = os.strerror(number)
    elif code := _S3_CODE.search(str(error)):
        advice = _ADVICE.get(code[1])
        said = f"S3 says {code[1]}" + (f": {advice}" if advice else "")
    else:
        said = type(error).__name__
    return InfrastructureError(STORE_UNAVAILABLE, f"the folder of segments (ONRAMP_ADMIN_STORE): {said}")
