"""Typed columns: parsing many payloads at once gives the values of parsing each alone."""

import json
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.lake.task import typed_columns as module
from services.lake.task.typed_columns import typed_columns
from shared.lake.lake_tables import Kind

KINDS = {"s": Kind.STRING, "i": Kind.INTEGER, "n": Kind.NUMBER, "b": Kind.BOOLEAN, "t": Kind.TIME}
GOOD = {"s": "x", "i": 7, "n": 1.5, "b": True, "t": "2026-11-21T08:00:00.5Z"}
TIMES = st.datetimes().map(lambda moment: moment.isoformat() + "Z") | st.text(max_size=12)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | TIMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
PAYLOADS = st.dictionaries(st.sampled_from([*KINDS, "other"]), VALUES, max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(PAYLOADS, min_size=1, max_size=5))
def test_together_and_one_by_one_agree(payloads: list[dict[str, Any]]) -> None:
    texts = [json.dumps(each) for each in payloads] + [orjson.dumps(GOOD).decode()] * 40
    many = typed_columns(pa.array(texts), KINDS)
    alone = [module._one_by_one([each], KINDS) for each in texts]
    for n in range(len(KINDS)):
        assert many.columns[n].equals(pa.concat_arrays([each.columns[n] for each in alone]))
    assert many.rescued == sum(each.rescued for each in alone)


def test_values_of_their_type_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each payload of a flood would be read alone, ten times as slow."""
    monkeypatch.setattr(module, "_one_by_one", None)
    columns, rescued = typed_columns(pa.array([orjson.dumps(GOOD).decode()] * 100), KINDS)
    assert [column[99].as_py() for column in columns[:4]] == ["x", 7, 1.5, True]
    assert rescued == 0
