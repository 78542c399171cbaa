"""Translates errors of a folder or a bucket into causes and fixes, without library messages."""

import os
import re
from typing import Final

from shared.errors import STORE_UNAVAILABLE, InfrastructureError
from shared.patience import SilentError

#: The error code of a bucket's server or of the network: NO_SUCH_BUCKET, ACCESS_DENIED, NETWORK_CONNECTION;
#: without a code, UNKNOWN and the status.
_S3_CODE: Final = re.compile(r"AWS Error ([A-Z_]{1,50}(?: \(HTTP status \d{3}\))?) during ")
#: Codes for a file that was removed while it was read.
_NO_FILE: Final = frozenset({"NO_SUCH_KEY", "RESOURCE_NOT_FOUND", "UNKNOWN (HTTP status 404)"})
_NO_BUCKET: Final = "there is no bucket {}: create it (Onramp creates none), or correct ONRAMP_ADMIN_STORE"
_RIGHTS: Final = (
    "correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or let that key list, read, write and delete"
)
_REACH: Final = "see that it works and answers from here, at the address that ONRAMP_ADMIN_STORE has"
#: The fix by code.
_ADVICE: Final = {
    "NO_SUCH_BUCKET": "create the bucket (Onramp creates none), or correct ONRAMP_ADMIN_STORE",
    "ACCESS_DENIED": _RIGHTS,
    "INVALID_ACCESS_KEY_ID": _RIGHTS,
    "SIGNATURE_DOES_NOT_MATCH": _RIGHTS,
    "NETWORK_CONNECTION": _REACH,
    "SERVICE_UNAVAILABLE": _REACH,
    "SLOW_DOWN": _REACH,
    "INTERNAL_FAILURE": _REACH,
}


def refused(error: Exception) -> Exception:
    """Return the exception to raise for an error of a folder or a bucket.

    `FileNotFoundError` for a missing file, else `InfrastructureError`; without the library's message.
    """
    if isinstance(error, FileNotFoundError) or _code(error) in _NO_FILE:
        return FileNotFoundError("the file does not exist")
    return unavailable(error)


def unavailable(error: Exception) -> InfrastructureError:
    """Return the error without the library's message, which may contain credentials."""
    number, code = getattr(error, "errno", None), _code(error)
    if isinstance(error, SilentError):
        said = f"{error}: {_REACH}"
    elif number:
        said = os.strerror(number)
    elif code:
        advice = _ADVICE.get(code)
        said = f"S3 says {code}" + (f": {advice}" if advice else "")
    else:
        said = type(error).__name__
    return InfrastructureError(STORE_UNAVAILABLE, f"the folder of segments (ONRAMP_ADMIN_STORE): {said}")


def not_there(bucket: str) -> InfrastructureError:
    """Return the error for a missing bucket or, without a name, a missing folder."""
    what = _NO_BUCKET.format(bucket) if bucket else "the folder does not exist: is it mounted?"
    return InfrastructureError(STORE_UNAVAILABLE, what)


def _code(error: Exception) -> str:
    found = _S3_CODE.search(str(error))
    return found[1] if found else ""
