"""Both ends of a connection detect a lost machine within seconds, so that its locks are released."""

import socket
from contextlib import closing

import psycopg2
import pytest

from shared.postgres.connect import connect
from tests.fixtures.fix_postgres import HasDsn

SERVERS = {"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3"}
OURS = {
    socket.TCP_KEEPIDLE: 5,
    socket.TCP_KEEPINTVL: 2,
    socket.TCP_KEEPCNT: 3,
    socket.TCP_USER_TIMEOUT: 10_000,
}


def test_both_ends_ask_for_signs_of_life(postgres: HasDsn) -> None:
    with closing(connect(postgres.dsn, name="onramp-test")) as conn, conn.cursor() as cursor:
        # Over TCP these are the socket's own values, not what was asked for.
        cursor.execute("SELECT name, setting FROM pg_settings WHERE name = ANY (%s)", (list(SERVERS),))
        assert dict(cursor.fetchall()) == SERVERS
        with socket.socket(fileno=conn.fileno()) as own:
            found = {option: own.getsockopt(socket.IPPROTO_TCP, option) for option in OURS}
            own.detach()
    assert found == OURS


def test_the_dsns_own_options_hold(postgres: HasDsn) -> None:
    dsn = psycopg2.extensions.make_dsn(postgres.dsn, options="-c work_mem=1234kB -c lock_timeout=9s")
    wanted = connect(dsn, name="onramp-test", options="-c lock_timeout=2s")
    with closing(wanted) as conn, conn.cursor() as cursor:
        cursor.execute("SELECT current_setting('work_mem'), current_setting('lock_timeout')")
        assert cursor.fetchone() == ("1234kB", "2s")


@pytest.mark.parametrize("name", ["onramp-admin", "onramp-writer land"])
def test_session_has_its_name_as_application_name(postgres: HasDsn, name: str) -> None:
    with closing(connect(postgres.dsn, name=name)) as conn, conn.cursor() as cursor:
        cursor.execute("SHOW application_name")
        assert cursor.fetchone() == (name,)
