"""The version in pyproject.toml and in the User-Agent."""

from typing import Final

VERSION: Final = "0.1.0"
