"""Compiles JSON Schemas in the same way for each service that checks events.

jsonschema-rs would fetch a remote `$ref` and open `file://` (SSRF), so its retriever raises.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

import jsonschema_rs

from shared.contracts.compile_cost import require_quick_patterns
from shared.contracts.schema_cost import SchemaCost

#: Backtracking steps of one match of a pattern, some tens of ms at most; without look-around and
#: references to groups a pattern takes none. With the library's default of a million an event takes seconds.
_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000)


class CompiledSchema:
    """A compiled JSON Schema, and the maximum cost of checking an event."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compile it.

        Raises:
            ValueError: it is not a JSON Schema, or refers to another document.
            TooCostlyError: one event, or compiling it, could take too long (shared/contracts/schema_cost.py,
                shared/contracts/compile_cost.py).
        """
        self.document = dict(schema)
        require_quick_patterns(self.document)
        try:
            self.validator = jsonschema_rs.validator_for(
                self.document, validate_formats=True, retriever=_reject_reference, pattern_options=_PATTERNS
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as e:
            raise ValueError(getattr(e, "message", str(e))) from None
        self.cost = SchemaCost(self.document)

    def is_valid(self, payload: Any) -> bool:
        """Return whether the payload satisfies the schema; takes at most about a second."""
        return bool(self.validator.is_valid(payload))


def compile_schema(schema: Mapping[str, Any]) -> CompiledSchema:
    """Return the compiled schema. Raise `ValueError` as `CompiledSchema` does."""
    return CompiledSchema(schema)


def _reject_reference(uri: str) -> NoReturn:
    raise ValueError(f"a schema may not refer to another document ({uri})")
