"""Texts of the registry that have a form: what does not match is told by what would."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator

RETENTION: Final = r"[1-9]\d{0,4}[hd]"


def matching(pattern: str, message: str) -> AfterValidator:
    """Return the validator of texts that match `pattern` from their first character to their last."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(message)
        return value

    return AfterValidator(check)


Retention = Annotated[str, matching(RETENTION, "a retention is hours or days: 36h, 30d")]
