"""What stands in a change for a large value that its update left alone (TOAST), by the column's type.

The log does not carry such a value, so Debezium has the text of `unavailable.value.placeholder` in its
place, as a value of the column's own kind.
"""

from base64 import b64encode
from hashlib import md5
from typing import Any, Final
from uuid import UUID

import orjson
from psycopg2 import sql

TEXT: Final = "__debezium_unavailable_value"
_BYTES: Final = TEXT.encode()
_UUID: Final = str(UUID(bytes=md5(_BYTES, usedforsecurity=False).digest(), version=3))
_KINDS: Final[tuple[Any, ...]] = (
    TEXT,
    _BYTES.hex(),
    b64encode(_BYTES).decode(),
    [TEXT],
    [_BYTES.hex()],
    list(_BYTES),
    {TEXT: TEXT},
    orjson.dumps({TEXT: TEXT}).decode(),
    [_UUID],
)
#: SQL for an array of all of them.
ALL: Final = sql.SQL("ARRAY[{}]::jsonb[]").format(
    sql.SQL(", ").join(sql.Literal(orjson.dumps(kind).decode()) for kind in _KINDS)
)
#: Texts of which a change has one that has any of them; what has one may have none.
_SIGNS: Final = (TEXT, _BYTES.hex(), b64encode(_BYTES).decode(), _UUID, ", ".join(map(str, _BYTES[:8])))
SIGNS: Final = sql.SQL("ARRAY[{}]").format(sql.SQL(", ").join(sql.Literal(f"%{sign}%") for sign in _SIGNS))
