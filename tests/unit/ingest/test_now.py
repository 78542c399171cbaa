"""The cached text of the time of receipt equals that of `datetime`."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingest import now as module

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.lists(st.integers(0, 4_000_000_000_000_000), min_size=1), st.integers(0, 999))
def test_it_is_written_as_datetime_writes_it(microseconds: list[int], rest: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        for each in (*microseconds, *microseconds):
            patched.setattr(module.time, "time_ns", lambda each=each: 1000 * each + rest)
            expected = _EPOCH + timedelta(microseconds=each)
            assert module.now() == expected.isoformat(timespec="microseconds")
