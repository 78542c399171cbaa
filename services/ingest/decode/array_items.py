"""Cuts a JSON array that fast parsers refuse, or should not see whole, into the slices of its items.

It finds where items begin and end by brackets and strings alone, at any depth, so that an
item with a lone surrogate, a NaN or 100,000 brackets can be refused by itself.  It stops
counting where the limit of a batch is passed: 10 KB of gzip hold five million items.
"""

import json
import re
from typing import Final

#: None of the pieces is long, and no match has many: between two matches other threads get a turn.
_STRING: Final = rb'"[^"\\]{0,1000}+(?:\\.[^"\\]{0,1000}+){0,4}+"'
_FLAT: Final = rb'\[[^"\[\]{}]{0,1000}+\]|\{[^"\[\]{}]{0,1000}+\}'
_PIECES: Final = rb"(?:[^%s]{1,1000}+|" + _STRING + b"|" + _FLAT + rb"){0,200}+"
_MARK: Final = rb'([\[{]{1,1000}+|[\]}]{1,1000}+|[,"]?)'
#: Up to the next mark: where items end, brackets that are next to one another, a long string's begin.
_TO_COMMA: Final = re.compile(_PIECES % rb'"\[\]{},' + _MARK, re.DOTALL)
_TO_BRACKET: Final = re.compile(_PIECES % rb'"\[\]{}' + _MARK, re.DOTALL)
#: Within a string, up to its end.
_TO_QUOTE: Final = re.compile(rb'(?:[^"\\]{1,1000}+|\\.){0,1000}+("?)', re.DOTALL)
_ARRAY: Final = b"["
_OPEN: Final = (_ARRAY, b"{")
_QUOTE: Final = b'"'
_WHITESPACE: Final = b" \t\r\n"


def cut(body: bytes, most: int) -> list[bytes] | None:
    """The slices of the array's items, or None when `body` is not one array by its brackets.

    Of an array of more than `most` items the first `most` + 1.
    """
    start = position = body.find(_ARRAY) + 1
    depth = 1
    slices: list[bytes] = []
    while len(slices) <= most:
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
    """Behind the string that began before `position`; 0: it has no end."""
    while True:
        token = _TO_QUOTE.match(body, position)
        if token is None or token.end() == position:
            return 0
        position = token.end()
        if token[1]:
            return position


def is_json(text: bytes) -> bool:
    """Whether `text` is JSON by its syntax; what it means is for `strict_json` to judge."""
    try:
        # parse_int: int() refuses 5,000 digits, which are JSON all the same.
        json.loads(text.decode(errors="replace"), strict=False, parse_int=len)
    except RecursionError:
        return True  # too deep for this parser; the judge says so in its own words
    except ValueError:
        return False
    return True
