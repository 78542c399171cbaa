"""Writer connections to a database: their number, their names and their security."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from services.writer.model.connection_budget import (
    MIN_CONNECTIONS,
    OF_THE_DRIVER,
    max_connections,
    max_tasks,
    tasks,
)
from services.writer.postgres import pool
from services.writer.postgres.pool import connected, transaction
from services.writer.settle import ledger
from shared.errors import InfrastructureError
from shared.kafka_read.offsets import Partition, Range
from tests.fixtures.tls_postgres import tls_in_front_of
from tests.fixtures.writer import PARTITION, TOPIC_ID, Bench, arrivals, database_of, event, eventually

_SESSIONS = """
    SELECT application_name FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'onramp-writer%'
"""


@pytest.fixture(autouse=True)
def _disconnected() -> Iterator[None]:
    yield
    pool.close_all()


def sessions(bench: Bench) -> list[str]:
    """The writer's sessions, by name."""
    return [name for (name,) in bench.rows(_SESSIONS)]


# --- how many ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", range(MIN_CONNECTIONS, 40))
def test_a_batch_has_as_many_tasks_as_the_bound_takes(bound: int) -> None:
    assert max_connections(max_tasks(bound)) <= bound
    assert max_connections(max_tasks(bound) + 1) > bound
    assert tasks(100_000, 50, 40, [None, bound, 100]) == max_tasks(bound)
    assert tasks(100_000, 2, 40, [None]) == 2


def test_a_process_waits_at_its_bound_instead_of_crossing_it(bench: Bench) -> None:
    through = threading.Event()

    def one_more() -> None:
        with connected(bench.database, "driver"):
            through.set()

    with ExitStack() as stack:
        for _ in range(OF_THE_DRIVER - 1):
            stack.enter_context(connected(bench.database, "driver"))
        thread = threading.Thread(target=one_more)
        with connected(bench.database, "driver"):
            thread.start()
            (room,) = [p._room for (_, dsn), p in pool._POOLS.items() if dsn == bench.dsn]
            eventually(lambda: through.is_set() or room._cond._waiters)  # type: ignore[attr-defined]
            assert len(sessions(bench)) == OF_THE_DRIVER
            assert not through.is_set()
        thread.join(30)
        assert through.is_set()
        assert len(sessions(bench)) == OF_THE_DRIVER


def test_an_idle_connection_of_another_role_makes_room(bench: Bench) -> None:
    with ExitStack() as stack:
        for _ in range(OF_THE_DRIVER):
            stack.enter_context(connected(bench.database, "driver"))
    with connected(bench.database, "land"), connected(bench.database, "ddl"):
        assert sorted(sessions(bench)) == sorted(
            ["onramp-writer land", "onramp-writer ddl", *["onramp-writer driver"] * (OF_THE_DRIVER - 2)]
        )


def test_where_not_all_fit_a_task_leaves_no_connection_behind(bench: Bench) -> None:
    tight = replace(bench.database, keep=False)
    pool.close_all()
    with transaction(tight, "land") as conn, conn.cursor() as cursor:
        cursor.execute("SELECT 1")
    eventually(lambda: sessions(bench) == [])


# --- under which names ------------------------------------------------------------------------


def test_a_transaction_says_which_topic_and_partition_it_is_at(bench: Bench) -> None:
    ranges = [Range(TOPIC_ID, PARTITION, 0, 5), Range(TOPIC_ID, Partition(PARTITION.topic, 1), 0, 5)]
    bench.claim([r.partition for r in ranges])
    with transaction(bench.database, "land") as conn:
        ledger.lock(conn, ranges, 1)
        assert "onramp-writer events.order_placed/0 +1" in sessions(bench)
    assert "onramp-writer land" in sessions(bench)


def test_a_long_topics_partition_is_not_cut_off() -> None:
    name = ledger.session_name([Range(TOPIC_ID, Partition("t" * 249, 17), 0, 1)] * 3)
    assert len(name) == 63
    assert name.endswith("~/17 +2")


def test_the_operators_own_options_hold_beside_the_writers(bench: Bench, limited: Bench) -> None:
    bench.execute(f"GRANT {limited.user} TO CURRENT_USER")
    options = f"-c%20role%3D{limited.user}%20-c%20search_path%3Devil"
    with closing_transaction(f"{bench.dsn}?options={options}") as found:
        assert found("SELECT current_user") == limited.user
        assert found("SHOW search_path") == "pg_catalog,pg_temp"


@contextmanager
def closing_transaction(dsn: str) -> Iterator["_One"]:
    with transaction(database_of(dsn), "land") as conn:
        yield _One(conn)


class _One:
    """Asks for one value."""

    def __init__(self, conn: pool.connection) -> None:
        self._conn = conn

    def __call__(self, statement: str) -> object:
        with self._conn.cursor() as cursor:
            cursor.execute(statement)
            (value,) = cursor.fetchone()
            return value


# --- how safely -------------------------------------------------------------------------------


def test_the_password_comes_from_a_file_that_is_read_at_each_connection(
    bench: Bench, limited: Bench, tmp_path: Path
) -> None:
    at = urlsplit(limited.dsn)
    file = tmp_path / "pgpass"
    bench.execute(f"GRANT CREATE ON DATABASE {at.path[1:]} TO {limited.user}")
    dsn = f"host={at.hostname} port={at.port} dbname={at.path[1:]} user={at.username} passfile={file}"
    for password, opens in (("wrong", False), (at.password, True)):
        file.write_text(f"*:*:*:{at.username}:{password}\n")
        file.chmod(0o600)
        if opens:
            with closing_transaction(dsn) as found:
                assert found("SELECT current_user") == limited.user
        else:
            with pytest.raises(InfrastructureError, match="database onramp"), closing_transaction(dsn):
                pass


def test_a_server_without_tls_is_out_when_tls_is_demanded(bench: Bench) -> None:
    with pytest.raises(InfrastructureError, match="database onramp"):
        Bench(f"{bench.dsn}?sslmode=require").claim()


def test_events_land_through_tls_and_only_on_the_server_that_proves_its_name(
    bench: Bench, tmp_path: Path
) -> None:
    trusted, other = _certificate(tmp_path / "own"), _certificate(tmp_path / "other")
    at = urlsplit(bench.dsn)
    with tls_in_front_of(at.port or 0, trusted) as port:
        address = f"postgresql://{at.username}:{at.password}@localhost:{port}{at.path}?sslmode=verify-full"
        safe = Bench(f"{address}&sslrootcert={trusted}")
        assert safe.settle(arrivals([event("a")])).failures == ()
        assert bench.totals() == {"landed": 1}
        with pytest.raises(InfrastructureError, match="database onramp"):
            Bench(f"{address}&sslrootcert={other}").claim()
        stranger = address.replace("localhost", "127.0.0.1")  # the certificate is not for this name
        with pytest.raises(InfrastructureError, match="database onramp"):
            Bench(f"{stranger}&sslrootcert={trusted}").claim()


def _certificate(folder: Path) -> Path:
    """A certificate for localhost that signs itself; its key is in the same file."""
    folder.mkdir()
    file = folder / "server.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    where = ["-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem", "-out", file]
    subprocess.run([*made.split(), *where], check=True, capture_output=True)
    file.write_text(file.read_text() + (folder / "key.pem").read_text())
    return file
