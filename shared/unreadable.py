"""What reading a record that anybody may have written raises when it is not what it should be.

Kafka does not say who wrote a record.  One that is nested some thousand times deep is no
`ValueError`: parsers give up with `RecursionError`, which one name here keeps from being forgotten.
"""

from typing import Final

#: Of json, msgspec and orjson, and of taking apart what they found.
UNREADABLE: Final = (ValueError, LookupError, TypeError, RecursionError, OverflowError)
