"""The exceptions of parsing a record that anybody may have written.

Kafka does not tell who wrote a record.  One that is nested some thousand levels deep raises
`RecursionError` and no `ValueError`; one name for all of them keeps it from being forgotten.
"""

from typing import Final

#: Of json, msgspec and orjson, and of unpacking what they return.
UNREADABLE: Final = (ValueError, LookupError, TypeError, RecursionError, OverflowError)
