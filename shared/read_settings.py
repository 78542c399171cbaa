"""Reads a service's settings from the environment, and reports each fault in a sentence.

Pydantic's error is a traceback without the variables' names, and it ignores a misspelt
variable.
"""

import difflib
import logging
import os
from typing import Final, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings
from pydantic_settings.exceptions import SettingsError

log = logging.getLogger(__name__)

#: Variables of the command line and of the admin service with the prefix of another service's settings.
_OF_OTHERS: Final = frozenset(
    {"ONRAMP_ADMIN_URL", "ONRAMP_ADMIN_KEY", "ONRAMP_ADMIN_KEY_FILE", "ONRAMP_WRITER_URLS"}
)

S = TypeVar("S", bound=BaseSettings)


class WrongSettingsError(Exception):
    """Settings are invalid; the text has a line for each, and never a value."""


def read_settings(kind: type[S]) -> S:
    """Return the settings of this class. Raises `WrongSettingsError`."""
    prefix = kind.model_config.get("env_prefix", "")
    try:
        return kind()
    except ValidationError as error:
        lines = [_line(prefix, fault["loc"], fault["msg"]) for fault in error.errors(include_input=False)]
    except SettingsError:
        lines = [f"a variable {prefix}… is not the JSON that it must be: docs/settings.md has examples"]
    raise WrongSettingsError("\n".join(lines)) from None


def warn_of_unknown(*kinds: type[BaseSettings]) -> None:
    """Log each variable that has a prefix of these settings and is not a setting: it has no effect."""
    prefixes = tuple(str(kind.model_config.get("env_prefix")) for kind in kinds)
    known = {
        f"{prefix}{name}".upper()
        for kind, prefix in zip(kinds, prefixes, strict=True)
        for name in kind.model_fields
    }
    for name in sorted(os.environ):
        if name.startswith(prefixes) and name not in known | _OF_OTHERS:
            meant = difflib.get_close_matches(name, known, n=1)
            log.warning(
                "unknown setting ignored: correct the variable's name or unset it (docs/settings.md)",
                extra={"variable": name, "perhaps": meant[0] if meant else ""},
            )


def _line(prefix: str, place: tuple[int | str, ...], message: str) -> str:
    name = f"{prefix}{place[0]}".upper() if place else f"{prefix}*"
    inside = "".join(f", at {part}" for part in place[1:])
    message = message.removeprefix("Value error, ")
    return f"{name}{inside}: {message} (docs/settings.md)"
