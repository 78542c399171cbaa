"""Cuts a JSON array that fast parsers refuse, or should not see whole, into the slices of its items.

It finds where items begin and end by brackets and strings alone, at any depth, so that an
item with a lone surrogate, a NaN or 100,000 brackets can be refused by itself.  It stops
counting where the limit of a batch is passed: 10 KB of gzip hold five million items.
"""

import json
import re
from typing import Final

_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
#: Up to the next mark.  At most 1,000 pieces in one match, so that other threads get a turn.
_TO_COMMA: Final = re.compile(rb'(?:[^"\[\]{},]++|%s){0,1000}+([\[\]{},]?)' % _STRING, re.DOTALL)
_TO_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|%s){0,1000}+([\[\]{}]?)' % _STRING, re.DOTALL)
_WHITESPACE: Final = b" \t\r\n"


def cut(body: bytes, most: int) -> list[bytes] | None:
    """The slices of the array's items, or None when `body` is not one array by its brackets.

    Of an array of more than `most` items the first `most` + 1.
    """
    depth = position = start = 0
    slices: list[bytes] = []
    while len(slices) <= most:
        token = (_TO_BRACKET if depth > 1 else _TO_COMMA).match(body, position)
        if token is None or token.end() == position:
            return None  # the end, or a string without one
        position, mark = token.end(), token[1]
        if mark in {b"[", b"{"}:
            depth += 1
            if depth == 1:
                start = position
        elif mark in {b"]", b"}"}:
            depth -= 1
            if depth == 0:
                slices.append(body[start : position - 1].strip(_WHITESPACE))
                whole = mark == b"]" and not body[position:].strip(_WHITESPACE)
                return ([] if slices == [b""] else slices) if whole else None
        elif mark == b"," and depth == 1:
            slices.append(body[start : position - 1].strip(_WHITESPACE))
            start = position
    return slices


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
