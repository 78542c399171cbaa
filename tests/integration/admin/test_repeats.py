"""Redelivered parked events are stored and counted once, even if a slice is only partly new."""

from typing import Any, Final

import pytest

from services.ops.findings import Source
from services.ops.parked.parked_events import StoredEvent
from shared import wire
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.writer import rows
from tests.integration.admin.parked_samples import keeping, parked

ALL: Final = """
    SELECT "offset", value, size, state, sha256 = sha256(value)
    FROM onramp_admin.events LEFT JOIN onramp_admin.bytes ON event = id ORDER BY id
"""
GROUPS: Final = "SELECT code, events, extract(epoch FROM last_seen)::int FROM onramp_admin.groups ORDER BY 1"
FACETS: Final = """
    SELECT code, counts #>> '{version,0,0,1}'
    FROM onramp_admin.facets JOIN onramp_admin.groups ON id = group_id ORDER BY 1
"""


def _events(*offsets: int) -> list[StoredEvent]:
    """Events of two causes; each third one is a tombstone."""
    values = {n: None if n % 3 == 0 else b"%d\t\\x" % n for n in offsets}
    return [parked(n, values[n], n * 1_000, code=f"c_{n % 2}", version="1") for n in offsets]


def _rows_of(*offsets: int) -> list[tuple[Any, ...]]:
    found = ((e.offset, e.value, len(e.value or b"")) for e in _events(*offsets))
    return [(n, value, size, "open", None if value is None else True) for n, value, size in found]


@pytest.mark.parametrize("again", [True, False])
def test_slices_that_come_twice_in_whole_or_in_part_are_kept_once(templates: Templates, again: bool) -> None:
    at = Source(wire.USER_ERRORS, 0)
    with keeping(templates) as (dsn, ingester):

        def kept(*offsets: int) -> int:
            return ingester.keep(_events(*offsets), {at: max(offsets) + 1})

        assert kept(*range(10)) == 10
        assert not again or kept(*range(10)) == 0
        assert kept(8, 10, 9, 11, 8, 2, 12) == 3  # some new between some that are there, one of them twice
        assert kept(13, 14) == 2  # nothing is there of these
        assert kept(15, 16, 15) == 2
        assert kept(16, 17) == 1
        assert [(n, bytes(v) if v else v, *rest) for n, v, *rest in rows(dsn, ALL)] == _rows_of(*range(18))
        assert rows(dsn, GROUPS) == [("c_0", 9, 16), ("c_1", 9, 17)]
        assert rows(dsn, FACETS) == [("c_0", "9"), ("c_1", "9")]
        assert rows(dsn, "SELECT count(*) FROM onramp_admin.bytes") == [(12,)]
        assert ingester.next_offsets() == {at: 18}
