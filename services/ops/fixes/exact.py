"""JSON whose numbers keep their text: 1.10 stays 1.10 and 1e400 stays 1e400, for no float comes between."""

import json
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn, Self

import orjson

from shared.errors import BAD_JSON, DUPLICATE_KEY, UserError


class Number:
    """A number with its original text; two numbers are equal if their values are."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __deepcopy__(self, _: object) -> Self:
        return self

    @property
    def _value(self) -> Decimal | str:
        try:
            return Decimal(self.text)
        except InvalidOperation:  # an exponent of more than 18 digits
            return self.text


def loads(body: bytes) -> Any:
    """Parse one JSON document.  Raises `UserError`.

    Numbers of any size and lone surrogates are accepted: a fix may repair them.
    """
    try:
        return _DECODER.decode(body.decode())
    except (ValueError, RecursionError):
        raise UserError(BAD_JSON, "the document is not JSON, or nested too deep") from None


def dumps(document: object) -> bytes:
    """Serialize a document of `loads`.  Raises `UserError` for a lone surrogate."""
    try:
        return orjson.dumps(document, default=_number)
    except (TypeError, RecursionError):
        raise UserError(
            BAD_JSON, "the document has a text that is not Unicode, or is nested too deep"
        ) from None


def _number(value: object) -> orjson.Fragment:
    if not isinstance(value, Number):
        raise TypeError
    return orjson.Fragment(value.text)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise UserError(DUPLICATE_KEY, "a key occurs twice in one object")
    return members


def _constant(_: str) -> NoReturn:
    raise UserError(BAD_JSON, "NaN and Infinity are not JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=Number, parse_float=Number, parse_constant=_constant
)
