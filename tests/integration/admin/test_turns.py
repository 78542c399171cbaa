"""Concurrency limit per caller: slow requests of a caller do not delay other callers."""

from concurrent.futures import ThreadPoolExecutor

from services.admin.api.turns import MAX_OF_ONE
from tests.fixtures.writer import eventually
from tests.integration.admin.admin_service import refused
from tests.integration.admin.operator_service import Guarded
from tests.integration.admin.test_frozen import locked

#: More than the database is asked at once.
MANY = 12
ASKED = "SELECT count(*)::int FROM pg_locks WHERE NOT granted AND relation = 'onramp_admin.parked'::regclass"


def test_operator_over_the_concurrency_limit_gets_429_and_other_operators_are_served(
    guarded: Guarded,
) -> None:
    with ThreadPoolExecutor(MANY) as beside, locked(guarded.dsn, "onramp_admin.parked"):
        slow = [beside.submit(guarded.of("vera").get, "/v1/events") for _ in range(MANY)]
        eventually(lambda: guarded.rows(ASKED)[0][0] >= MAX_OF_ONE)
        assert guarded.of("ada").get("/v1/audit-log").status_code == 200
        assert guarded.of("vera").get("/readyz").status_code == 200
        first = eventually(lambda: next((each for each in slow if each.done()), None)).result()
        refused(first, 429, "too_many_at_once")
        assert first.headers["retry-after"] == "2"
        # The server may still end a statement whose request was answered.
        eventually(lambda: guarded.rows(ASKED)[0][0] <= MAX_OF_ONE)
    assert guarded.of("vera").get("/v1/events").status_code == 200
