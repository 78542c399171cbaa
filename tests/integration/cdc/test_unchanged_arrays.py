"""NULL in an update of an array: a real NULL and an unchanged large array are distinguished."""

from typing import Any, Final

import pytest

from services.cdc.merge.public_table import Cleaning
from services.cdc.merge.suspended import SuspendedError
from tests.fixtures.changes import Stream
from tests.integration.cdc.merge_bench import UNCLEANED, Desk

HELD: Final = "has NULL in a, which had a value: .* re-snapshot the source"


@pytest.fixture
def arrays(desk: Desk) -> Desk:
    """A table with an array whose updates do not show whether the value is unchanged."""
    desk.columns = {"id": "integer", "n": "integer", "a": "numeric[]"}
    return desk


def _of(*values: Any) -> dict[str, Any]:
    return dict(zip(("id", "n", "a"), values, strict=True))


@pytest.mark.parametrize("most", [1, 2, 100])
@pytest.mark.parametrize("is_moved", [False, True])
def test_where_there_was_a_value_the_table_is_held_until_it_is_read_again(
    arrays: Desk, most: int, *, is_moved: bool
) -> None:
    stream = Stream().insert(**_of(1, 1, ["1.5"])).insert(**_of(2, 1, None)).commit()
    unsure = (
        stream.rekey(_of(1, None, None), **_of(3, 2, None)) if is_moved else stream.update(**_of(1, 2, None))
    )
    with pytest.raises(SuspendedError, match=HELD):
        arrays.tell().land(unsure).merge(most)
    again = Stream(at=2000).snapshot([_of(1, 2, ["1.5"]), _of(2, 1, None)])
    arrays.land(again).merge(most)
    assert [(i, n, a and list(map(str, a))) for i, n, a in arrays.rows()] == [(1, 2, ["1.5"]), (2, 1, None)]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_where_it_was_null_it_is_null(arrays: Desk, most: int) -> None:
    stream = Stream().insert(**_of(1, 1, None)).update(**_of(1, 2, None)).insert(**_of(2, 1, None)).commit()
    stream.rekey(_of(2, None, None), **_of(3, 2, None)).update(**_of(3, 3, None)).commit()
    stream.insert(**_of(4, 1, ["1"])).delete(**_of(4, None, None)).insert(**_of(4, 2, None)).commit()
    stream.update(**_of(1, 3, ["7"])).update(**_of(1, 4, []))
    arrays.tell().land(stream).merge(most)
    assert arrays.rows() == [(1, 4, []), (3, 3, None), (4, 2, None)]


@pytest.mark.parametrize(
    ("columns", "held"), [("app.mood[]", True), ("integer[] (domain)", True), ("text[]", False)]
)
def test_array_type_with_a_placeholder_for_unchanged_values_may_become_null(
    desk: Desk, columns: str, *, held: bool
) -> None:
    desk.columns = {"id": "integer", "a": columns}
    desk.tell().land(Stream().insert(id=1, a=["1"]).update(id=1, a=None))
    if held:
        with pytest.raises(SuspendedError, match=HELD):
            desk.merge()
    else:
        assert desk.merge().rows() == [(1, None)]


def test_ambiguous_null_in_a_filtered_out_row_suspends_the_table_only_once_published(arrays: Desk) -> None:
    cleaning = Cleaning(where="after->>'n' <> '0'")
    arrays.tell().land(Stream().insert(**_of(1, 0, ["1"])).insert(**_of(2, 1, None))).merge(cleaning=cleaning)
    arrays.land(Stream(at=2000).update(**_of(1, 0, None))).merge(cleaning=cleaning)
    assert arrays.rows() == [(2, 1, None)]
    with pytest.raises(SuspendedError, match=HELD):
        arrays.land(Stream(at=3000).update(**_of(1, 5, None))).merge(cleaning=cleaning)


def test_a_column_that_is_new_was_null(arrays: Desk) -> None:
    del arrays.columns["a"]
    arrays.tell().land(Stream().insert(id=1, n=1).insert(id=2, n=1)).merge(cleaning=UNCLEANED)
    arrays.columns["a"] = "numeric[]"
    again = Stream(at=2000).update(id=1, n=2).update(**_of(1, 3, None)).update(**_of(2, 2, None))
    arrays.tell(lsn=2).land(again).merge()
    assert arrays.rows() == [(1, 3, None), (2, 2, None)]


def test_without_a_key_the_whole_row_before_tells(arrays: Desk) -> None:
    arrays.key = None
    stream = Stream().insert(**_of(1, 1, None)).update(_of(1, 1, None), **_of(1, 2, None))
    assert arrays.tell().land(stream).merge().rows() == [(1, 2, None)]
    stream = Stream(at=2000).insert(**_of(2, 1, ["1"])).update(_of(2, 1, ["1"]), **_of(2, 2, None))
    with pytest.raises(SuspendedError, match=HELD):
        arrays.land(stream).merge()
