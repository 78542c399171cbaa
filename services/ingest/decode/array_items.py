"""Splits a JSON array that fast parsers reject, or should not parse whole, into the bytes of its items.

It finds where items start and end by brackets and strings alone, at any depth, so that an
item with a lone surrogate, a NaN or 100,000 brackets can be rejected by itself.  It stops
above the limit of a batch: 10 KB of gzip can hold five million items.
"""

import json
import re
from typing import Final

#: Each piece is short and no match has many: other threads can run between matches.
_STRING: Final = rb'"[^"\\]{0,1000}+(?:\\.[^"\\]{0,1000}+){0,4}+"'
_FLAT: Final = rb'\[[^"\[\]{}]{0,1000}+\]|\{[^"\[\]{}]{0,1000}+\}'
_PIECES: Final = rb"(?:[^%s]{1,1000}+|" + _STRING + b"|" + _FLAT + rb"){0,200}+"
_MARK: Final = rb'([\[{]{1,1000}+|[\]}]{1,1000}+|[,"]?)'
#: Up to the next mark: the end of an item, a run of brackets, or the start of a long string.
_TO_COMMA: Final = re.compile(_PIECES % rb'"\[\]{},' + _MARK, re.DOTALL)
_TO_BRACKET: Final = re.compile(_PIECES % rb'"\[\]{}' + _MARK, re.DOTALL)
#: Within a string, up to its end.
_TO_QUOTE: Final = re.compile(rb'(?:[^"\\]{1,1000}+|\\.){0,1000}+("?)', re.DOTALL)
_ARRAY: Final = b"["
_OPEN: Final = (_ARRAY, b"{")
_QUOTE: Final = b'"'
_WHITESPACE: Final = b" \t\r\n"


def split_array(body: bytes, max_items: int) -> list[bytes] | None:
    """Return the bytes of the array's items, or None when `body` is not one array by its brackets.

    If the array has more than `max_items` items, return the first `max_items` + 1.
    """
    start = position = body.find(_ARRAY) + 1
    depth = 1
    slices: list[bytes] = []
    while len(slices) <= max_items:
        token = (_TO_BRACKET if depth > 1 else _TO_COMMA).match(body, position)
        if token is None or token.end() == position:
            return None  # the end
        position, mark = token.end(), token[1]
        if mark.startswith(_OPEN):
            depth += len(mark)
        elif mark == _QUOTE:
            position = _end_of_string(body, position)
            if not position:
                return None
        elif mark == b",":
            if depth == 1:
                slices.append(body[start : position - 1].strip(_WHITESPACE))
                start = position
        elif len(mark) < depth:
            depth -= len(mark)
        else:
            end = token.start(1) + depth - 1
            slices.append(body[start:end].strip(_WHITESPACE))
            whole = body[end : end + 1] == b"]" and not body[end + 1 :].strip(_WHITESPACE)
            return ([] if slices == [b""] else slices) if whole else None
    return slices


def _end_of_string(body: bytes, position: int) -> int:
    """Return the position behind the string that started before `position`; 0 if it has no end."""
    while True:
        token = _TO_QUOTE.match(body, position)
        if token is None or token.end() == position:
            return 0
        position = token.end()
        if token[1]:
            return position


def is_json(text: bytes) -> bool:
    """Return whether `text` has JSON syntax; `strict_json` checks its values."""
    try:
        # parse_int: int() raises at 5,000 digits, which are valid JSON.
        json.loads(text.decode(errors="replace"), strict=False, parse_int=len)
    except RecursionError:
        return True  # too deep for this parser; `strict_json` raises its own error for that
    except ValueError:
        return False
    return True
