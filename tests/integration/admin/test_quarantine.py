"""An event that the control database refuses is quarantined with the reason, and blocks no others."""

import secrets
from collections.abc import Iterator
from typing import Final

import orjson
import pytest

from services.admin.dead_letters import quarantine_sql
from services.admin.store.ingester_sql import IngesterSession
from services.ops.findings import Source
from services.ops.kafka_logs import LogRecord
from services.ops.parked.parked_events import StoredEvent, stored_event
from shared import wire
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import eventually, execute, rows
from tests.integration.admin.admin_service import Admin
from tests.integration.admin.conftest import Stage
from tests.integration.admin.test_ingester import bad

LOG: Final = Source(wire.USER_ERRORS, 0)
#: What somebody may have added: by the event, by its bytes, by the group.
REFUSALS: Final = {
    "P0001": (
        """CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN IF new.event_id = 'e-3' THEN RAISE 'no'; END IF; RETURN new; END$$""",
        """CREATE TRIGGER refuse BEFORE INSERT ON onramp_admin.parked
        FOR EACH ROW EXECUTE FUNCTION public.refuse()""",
    ),
    "54000": ("CREATE INDEX too_large ON onramp_admin.bytes (md5(value), value)",),
    "22012": (  # at the end of the transaction
        """CREATE FUNCTION public.divide() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN IF new.event_id = 'e-3' THEN PERFORM 1 / 0; END IF; RETURN NULL; END$$""",
        """CREATE CONSTRAINT TRIGGER divide AFTER INSERT ON onramp_admin.parked
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.divide()""",
    ),
    "23505": (
        """CREATE UNIQUE INDEX own ON onramp_admin.parked
        ((CASE WHEN event_id IN ('e-2', 'e-3') THEN 1 END))""",
    ),
    "23514": ("ALTER TABLE onramp_admin.groups ADD CONSTRAINT refuse CHECK (event_name <> 'n3') NOT VALID",),
}
MEND: Final = {
    "P0001": "DROP TRIGGER refuse ON onramp_admin.parked",
    "22012": "DROP TRIGGER divide ON onramp_admin.parked",
    "23505": "DROP INDEX onramp_admin.own",
    "54000": "DROP INDEX onramp_admin.too_large",
    "23514": "ALTER TABLE onramp_admin.groups DROP CONSTRAINT refuse",
}
KEPT: Final = """
    SELECT "offset"::int, event_name, sha256(b.value) = e.sha256, reason ->> 'detail'
    FROM onramp_admin.events e LEFT JOIN onramp_admin.bytes b ON b.event = e.id
    WHERE "offset" < 10 ORDER BY 1
"""
COUNTED: Final = "SELECT sum(events)::int FROM onramp_admin.groups"
FACETS: Final = "SELECT counts::text FROM onramp_admin.facets ORDER BY group_id"


def _event(n: int, group: int) -> StoredEvent:
    # So large and without a pattern that no index takes it.
    value = orjson.dumps({"event_name": f"n{group}", "x": secrets.token_hex(8000 if n == 3 else 8)})
    told = {"topic": "t", "partition": 0, "offset": n, "code": "x", "destination": "d", "id": f"e-{n}"}
    record = LogRecord(
        source=LOG, offset=n, timestamp=n, key=b"k", value=value, header_count=1,
        headers={"onramp-error": orjson.dumps(told | {"detail": f"\t\\{n}", "version": "1"})},
    )  # fmt: skip
    found = stored_event(record)
    assert found is not None
    return found


@pytest.fixture
def ingester(database: Database) -> Iterator[IngesterSession]:
    session = eventually(lambda: IngesterSession.open(database.dsn))
    yield session
    session.close()


@pytest.mark.parametrize("sqlstate", REFUSALS)
def test_refused_event_is_quarantined_and_is_stored_when_the_database_accepts_it(
    ingester: IngesterSession, database: Database, sqlstate: str
) -> None:
    events = [_event(n, n) for n in range(6)]
    # Of the same groups.
    assert quarantine_sql.keep(ingester, [_event(n + 10, n) for n in range(6)], {LOG: 0}) == 6
    for statement in REFUSALS[sqlstate]:
        execute(database.dsn, statement)
    assert quarantine_sql.keep(ingester, events, {LOG: 6}) == 5
    assert ingester.next_offsets() == {LOG: 6}
    whole = [(n, f"n{n}", True, f"\t\\{n}") for n in range(6)]
    assert rows(database.dsn, KEPT) == whole[:3] + whole[4:]
    assert rows(database.dsn, "SELECT sqlstate FROM onramp_admin.quarantined") == [(sqlstate,)]
    # Read again, as after a kill: nothing is twice.
    assert quarantine_sql.keep(ingester, events, {LOG: 6}) == 0
    assert (rows(database.dsn, COUNTED), quarantine_sql.try_again(ingester)) == ([(11,)], 1)

    execute(database.dsn, MEND[sqlstate])
    assert quarantine_sql.try_again(ingester) == 0
    assert (rows(database.dsn, KEPT), rows(database.dsn, COUNTED)) == (whole, [(12,)])
    of_versions = [orjson.loads(counts)["version"] for (counts,) in rows(database.dsn, FACETS)]
    assert of_versions == [[[["1", 2]], 0]] * 6


def test_a_service_sets_aside_what_is_refused_and_keeps_the_others(stage: Stage, admin: Admin) -> None:
    refuse, mend = REFUSALS["P0001"], (MEND["P0001"], "DROP FUNCTION public.refuse()")
    for statement in refuse:
        execute(admin.dsn, statement)
    try:
        stage.settle(*bad(stage.name, 5))
        admin.kept(stage.name, 4)
        assert "e-3" not in {each["event_id"] for each in admin.events(event_name=stage.name)}
    finally:
        for statement in mend:
            execute(admin.dsn, statement)
