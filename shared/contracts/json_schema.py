"""Compiles JSON Schemas, the same for everybody who takes one.

jsonschema-rs would fetch a remote `$ref` and open `file://` (SSRF), so its retriever raises.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

import jsonschema_rs

#: Steps back that one match of a pattern may take, some tens of ms at most; without look-around and
#: references to groups a pattern takes none.  With the library's own million an event takes seconds.
_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000)


def compile_schema(schema: Mapping[str, Any]) -> Any:
    """Return the validator of `schema`.

    Raises:
        ValueError: it is no JSON Schema, or refers to another document.
    """
    try:
        return jsonschema_rs.validator_for(
            dict(schema), validate_formats=True, retriever=_reject_reference, pattern_options=_PATTERNS
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as e:
        raise ValueError(getattr(e, "message", str(e))) from None


def _reject_reference(uri: str) -> NoReturn:
    raise ValueError(f"a schema may not refer to another document ({uri})")
