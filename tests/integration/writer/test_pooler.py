"""Behind a pooler that drops session settings a database is unreachable; the error names the remedy."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from services.admin.store import control_sql
from services.ops.operate import holds_sql
from services.writer.postgres import pool
from shared.errors import DATABASE_UNFIT, InfrastructureError
from shared.postgres.connect import connect, settings_in
from tests.fixtures.pooler import pooled
from tests.fixtures.writer import Bench, arrivals, database_of, event, set_for_database


def _land(dsn: str) -> None:
    with pool.transaction(database_of(dsn), "land"):
        pass


def _operate(dsn: str) -> None:
    with holds_sql.connected("onramp", dsn):
        pass


def _control(dsn: str) -> None:
    with control_sql.transaction(dsn):
        pass


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("use", [_land, _operate, _control])
def test_a_pooler_that_drops_settings_is_named(
    bench: Bench, use: Callable[[str], None], refuses: bool
) -> None:
    set_for_database(bench.dsn, {"intervalstyle": "sql_standard"})
    with pooled(bench.dsn, refuses=refuses) as dsn, pytest.raises(InfrastructureError) as raised:
        use(dsn)
    assert raised.value.fault is DATABASE_UNFIT
    assert "PgBouncer" in raised.value.detail
    assert f"ALTER ROLE \"{bench.user}\" SET intervalstyle = 'postgres'" in raised.value.detail


def test_events_wait_until_the_role_has_the_settings(bench: Bench, limited: Bench) -> None:
    with pooled(limited.dsn) as dsn:
        assert Bench(dsn).settle(arrivals([event("a")])).failures == (DATABASE_UNFIT.code,)
        with pytest.raises(InfrastructureError) as raised:
            _land(dsn)
        bench.execute(raised.value.detail[raised.value.detail.index("ALTER ROLE") :])
        _land(dsn)
        pool.close_all()


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("", {}),
        ("-c a=1 -cb=2 --c-d=3 -c a=4", {"a": "4", "b": "2", "c_d": "3"}),
        (r"-c iso=read\ committed -c path=a,b", {"iso": "read committed", "path": "a,b"}),
    ],
)
def test_settings_are_found_in_options(options: str, settings: dict[str, Any]) -> None:
    assert settings_in(options) == settings


def test_settings_that_the_address_has_are_read_back_too(bench: Bench) -> None:
    overridden = "-c%20client_encoding%3DLATIN1%20-c%20datestyle%3DSQL%20-c%20tcp_keepalives_idle%3D9"
    options = f"?options={overridden}%20-c%20statement_timeout%3D5min%20-c%20role%3D{bench.user}"
    with closing(connect(bench.dsn + options, name="test")):
        pass
    with pooled(bench.dsn) as dsn, pytest.raises(InfrastructureError, match="SET role = "):
        connect(dsn + options, name="test")
