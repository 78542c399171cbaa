"""Keys with different bytes that the source treats as equal identify one row."""

import pytest

from tests.fixtures.changes import UNAVAILABLE, Stream
from tests.integration.cdc.merge_bench import Desk


@pytest.mark.parametrize("most", [1, 2, 100])
@pytest.mark.parametrize(
    ("of", "keys"), [("public.citext", ("A", "a", "b")), ("numeric", ("1.0", "1.00", "2.0"))]
)
def test_a_key_that_becomes_an_equal_one_is_one_row(
    desk: Desk, of: str, keys: tuple[str, str, str], most: int
) -> None:
    desk.columns = {"id": of, "note": "text"}
    first, same, other = keys
    stream = Stream().insert(id=first, note="large").commit()
    stream.rekey({"id": first, "note": None}, id=same, note=UNAVAILABLE).commit()
    stream.update(id=same, note=UNAVAILABLE).commit()
    stream.rekey({"id": same, "note": None}, id=first, note="b").rekey(
        {"id": first, "note": None}, id=same, note="c"
    )
    stream.commit().delete(id=same, note=None).insert(id=first, note="d").insert(id=other, note="e").commit()
    stream.rekey({"id": first, "note": None}, id=same, note=UNAVAILABLE)
    desk.tell().land(stream).merge(most)
    assert [(str(key), note) for key, note in desk.rows()] == [(same, "d"), (other, "e")]
