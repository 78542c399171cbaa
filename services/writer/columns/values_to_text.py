"""Converts columns of JSON values, cut from objects of one layout, to the texts of `json_to_text`.

Values that a column certainly accepts are found for the whole column at once.  `json_to_text` converts
the others, so that it alone decides which values cannot land.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from services.writer.columns.column_types import Kind, Type
from services.writer.columns.json_to_text import MisfitError, as_texts, plain_time
from services.writer.columns.value_changes import SAFE_LENGTH
from shared.kafka_read.arrow_bytes import joined, offsets

_Mask = np.ndarray[Any, np.dtype[np.bool_]]
_NULL: Final = b"null"
_MINUS: Final = ord("-")
_ZERO, _TEN = ord("0"), 10
_SPACE: Final = ord(" ")
_POINT: Final = ord(".")
_EXPONENT: Final = ord("E")
#: The bit in which small and capital letters differ.
_LETTER_CASE: Final = np.uint8(0x20)
#: Numbers with at most this many digits are within the smallest unsigned type.
_UNSIGNED_DIGITS: Final = 9
_BOOLEANS: Final = pa.array([b"true", b"false"])
#: Kinds whose strings differ from the column's text, or are checked one by one.
_ONE_BY_ONE: Final = frozenset(
    {Kind.NUMBER, Kind.BOOL, Kind.BYTES, Kind.INTERVAL, Kind.RANGE, Kind.ARRAY, Kind.NONE}
)


def texts_of(
    of: Type, values: pa.BinaryArray, *, quoted: bool
) -> tuple[pa.StringArray, dict[int, MisfitError]]:
    """Convert `values` for a column of type `of`; return texts, and errors by index, as `as_texts` does.

    `values` are JSON without a backslash; `quoted`: they are texts without their quotes.
    """
    certain, nulls = (_strings(of, values), None) if quoted else _bare(of, values)
    texts = values.view(pa.string())  # they were parsed, so they are UTF-8
    if quoted and of.kind is Kind.JSON:
        texts = pc.binary_join_element_wise('"', texts, '"', "")
    if nulls is not None and nulls.any():
        texts = pc.if_else(pa.array(nulls), pa.scalar(None, pa.string()), texts)
    if certain.all():
        return texts, {}
    uncertain = np.flatnonzero(~certain)
    raws = values.take(pa.array(uncertain)).to_pylist()
    others, misfits = as_texts(of, [b'"%b"' % raw if quoted else raw.strip() for raw in raws])
    texts = pc.replace_with_mask(texts, pa.array(~certain), pa.array(others, pa.string()))
    return texts, {int(uncertain[i]): misfit for i, misfit in misfits.items()}


def _strings(of: Type, values: pa.BinaryArray) -> _Mask:
    """Return which strings the column certainly accepts unchanged."""
    if of.kind in _ONE_BY_ONE:
        return np.zeros(len(values), dtype=bool)
    if pattern := plain_time(of):
        return _mask(pc.match_substring_regex(values.view(pa.string()), pattern))
    certain = np.ones(len(values), dtype=bool)
    if of.kind is Kind.TEXT and of.longest is not None:
        certain &= _mask(pc.less_equal(pc.utf8_length(values.view(pa.string())), of.longest))
    if of.kind is Kind.TEXT and of.longest_bytes is not None:
        certain &= _mask(pc.less_equal(pc.binary_length(values), of.longest_bytes))
    return certain


def _bare(of: Type, values: pa.BinaryArray) -> tuple[_Mask, _Mask]:
    """Return which values, none of them a string, the column certainly accepts unchanged; which are null."""
    nulls = _mask(pc.equal(values, pa.scalar(_NULL, values.type)))
    certain = nulls.copy()
    if of.kind is Kind.NUMBER:
        certain |= _numbers(of, values)
    elif of.kind is Kind.BOOL:
        certain |= _mask(pc.is_in(values, _BOOLEANS))
    elif of.kind is Kind.JSON:
        first, last = _ends(values)
        certain |= (first > _SPACE) & (last > _SPACE)
    return certain, nulls


def _numbers(of: Type, values: pa.BinaryArray) -> _Mask:
    """Return which values are numbers that the column certainly stores unchanged.

    JSON that begins and ends like a number is a number.
    """
    first, last = _ends(values)
    certain: _Mask = ((first == _MINUS) | (first - _ZERO < _TEN)) & (last - _ZERO < _TEN)
    if of.is_integer and not _are_digits(values):
        certain &= ~_mask(pc.match_substring_regex(values.view(pa.string()), "[.eE]"))
    if of.unsigned_bits is not None:
        certain &= (first != _MINUS) & (np.diff(offsets(values)) <= _UNSIGNED_DIGITS)
    if of.scale is None and not of.float_name:
        return certain
    sizes = np.diff(offsets(values))
    texts = values.view(pa.string())
    exponents = _mask(pc.match_substring(texts, "e", ignore_case=True))
    if of.float_name:
        certain &= ~exponents & (sizes <= SAFE_LENGTH[of.float_name])
        return certain
    points = pc.find_substring(texts, ".").to_numpy(zero_copy_only=False)
    digits = np.where(points < 0, 0, sizes - points - 1)
    certain &= ~exponents & (digits <= of.scale)
    return certain


def _are_digits(values: pa.BinaryArray) -> bool:
    """Return whether none of `values` has a point or an exponent; costs a pass over their bytes."""
    raw = np.frombuffer(joined(values), np.uint8)
    return not ((raw == _POINT) | (raw & ~_LETTER_CASE == _EXPONENT)).any()


def _ends(values: pa.BinaryArray) -> tuple[Any, Any]:
    """Return the first and the last byte of each value; no value is empty."""
    bounds = offsets(values)
    raw = np.frombuffer(values.buffers()[2], np.uint8)
    return raw[bounds[:-1]], raw[bounds[1:] - 1]


def _mask(flags: pa.BooleanArray) -> _Mask:
    mask: _Mask = flags.to_numpy(zero_copy_only=False)
    return mask
