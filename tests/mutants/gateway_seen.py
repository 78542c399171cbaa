"""The protections of what the gateway shows of itself."""

from functools import partial
from typing import Final

from tests.mutants.machine import Mutant

_WATCH: Final = "tests/unit/ingest/test_registry_watch.py::test_"
_LIMITS: Final = partial(
    Mutant, tests=f"{_WATCH}a_types_limits_are_shown_and_those_that_are_gone_are_0", file="observe/metrics.py"
)

SEEN: Final = (
    _LIMITS(
        "a type's limit that is gone",
        old="for limit, name in self._limited | found.keys():",
        new="for limit, name in found.keys():",
    ),
    _LIMITS("a type's limit that was shown", old="self._limited |= found.keys()", new="pass"),
)
