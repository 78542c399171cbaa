"""The release of Onramp that this is; a test holds it against pyproject.toml."""

from typing import Final

VERSION: Final = "0.1.0"
