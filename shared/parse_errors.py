"""The exceptions of parsing a record from an untrusted writer.

Kafka does not identify a record's writer. A record that is nested some thousand levels deep raises
`RecursionError` and not `ValueError`; one name for all of them makes that hard to forget.
"""

from typing import Final

#: Raised by json, msgspec and orjson, and when their result is unpacked.
UNREADABLE: Final = (ValueError, LookupError, TypeError, RecursionError, OverflowError)
