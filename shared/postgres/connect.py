"""Opens connections whose two ends detect the loss of the other machine within about ten seconds.

A machine that loses power or network does not close its connections. By the defaults of Linux the other end
waits two hours: a server would keep the locks of a dead service from its successor,
and a service would wait for an answer that never comes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psycopg2
from psycopg2.extensions import connection, cursor, parse_dsn

from shared.errors import DATABASE_UNFIT, InfrastructureError
from shared.postgres.failures import MissingDatabaseError, is_missing
from shared.postgres.quoting import identifier

_IDLE_SECONDS: Final = 5
_INTERVAL_SECONDS: Final = 2
_COUNT: Final = 3
#: Milliseconds that sent data may be unacknowledged.
_UNACKNOWLEDGED_MS: Final = 10_000
_CONNECT_SECONDS: Final = 5
#: A role or a database may have its own settings (ALTER DATABASE or ROLE … SET), with which values would have
#: other texts, an amount of money or a float even another value, and long statements would be cancelled.
USUAL: Final = (
    "array_nulls=on",
    "bytea_output=hex",
    "extra_float_digits=1",
    "idle_in_transaction_session_timeout=0",
    "intervalstyle=postgres",
    "lc_monetary=C",
    "lock_timeout=0",
    "quote_all_identifiers=off",
    "standard_conforming_strings=on",
    "statement_timeout=0",
    "transform_null_equals=off",
    "xmloption=content",
)
#: psycopg2 sets the dates' style; the database decides the order of day and month.
_OURS: Final = (*USUAL, "default_transaction_isolation=read\\ committed")
#: Settings that older servers do not have: a connection's options have them only where they are needed.
_OF_LATER_SERVERS: Final = {"transaction_timeout": "0"}
#: Keepalive settings of the server's end.
_SERVERS: Final = (
    f"-c tcp_keepalives_idle={_IDLE_SECONDS} -c tcp_keepalives_interval={_INTERVAL_SECONDS} "
    f"-c tcp_keepalives_count={_COUNT}"
)
#: The only setting that is a list of names.
_LIST: Final = "search_path"
#: A setting in a connection's options; a backslash escapes a blank.
_SETTING: Final = re.compile(r"(?:-c\s*|--)([\w.\-]+)=((?:\\.|[^\s\\])*)", re.DOTALL)
#: Settings of an address that Onramp and psycopg2 override by other means.
_NOT_BY_OPTIONS: Final = frozenset(
    {"application_name", "client_encoding", "datestyle"}
    | {f"tcp_keepalives_{name}" for name in ("idle", "interval", "count")}
)
#: A pooler's message about options that it does not support.
_NO_OPTIONS: Final = "unsupported startup parameter"
#: Selects the settings that the session lacks. Settings that no session may change, or that the server does
#: not have, are skipped. The inner query runs before the outer one sets the values to compare with.
_LACKING: Final = """
    SELECT name FROM (
        SELECT given.name, given.value, current_setting(given.name, true) AS now
        FROM unnest(%s::text[], %s::text[]) given (name, value) LEFT JOIN pg_settings s ON s.name = given.name
        WHERE coalesce(s.context, 'user') IN ('user', 'superuser')
          AND NOT (s.name IS NULL AND given.name = ANY (%s)) OFFSET 0
    ) given
    WHERE replace(now, ', ', ',') IS DISTINCT FROM replace(set_config(name, value, true), ', ', ',')
"""


class Session(connection):
    """A connection that closes after the server reported it as read-only (SQLSTATE 25006).

    A session keeps the read-only state that the database or the role had at its start, and a session to a hot
    standby stays on that server: reused, it would fail forever.
    """

    is_read_only = False

    def rollback(self) -> None:
        """Roll back; then close if the server refused to write."""
        super().rollback()
        if self.is_read_only:
            self.close()


class _Cursor(cursor):
    """Records on its session that the server refused to write."""

    def execute(self, *given: Any, **named: Any) -> None:
        with _noting_read_only(self.connection):
            super().execute(*given, **named)

    def copy_expert(self, *given: Any, **named: Any) -> None:
        with _noting_read_only(self.connection):
            super().copy_expert(*given, **named)


@contextmanager
def _noting_read_only(conn: connection) -> Iterator[None]:
    try:
        yield
    except psycopg2.errors.ReadOnlySqlTransaction:
        if isinstance(conn, Session):
            conn.is_read_only = True
        if conn.autocommit:  # no caller rolls back
            conn.close()
        raise


def can_write(conn: connection) -> bool:
    """Return whether a transaction of this session may write. Raises `psycopg2.Error`.

    Takes one round trip, and leaves a transaction open unless the session commits by itself.
    """
    with conn.cursor() as cur:
        cur.execute("SELECT current_setting('transaction_read_only') = 'off'")
        (writes,) = cur.fetchone() or (False,)
    return bool(writes)


def has_table(conn: connection, name: str) -> bool:
    """Return whether there is a table of this name, quoted where needed. Raises `psycopg2.Error`."""
    with conn.cursor() as cur:
        cur.execute("SELECT to_regclass(%s) IS NOT NULL", (name,))
        return cur.fetchone() == (True,)


def session(settings: Iterable[str]) -> str:
    """Return session settings (`name=value`) as a connection's options."""
    return " ".join(f"-c {setting}" for setting in settings)


def connect(dsn: str, *, name: str, options: str = "") -> connection:
    """Open a connection with application name `name`; `options` are session settings (`-c …`).

    The DSN's options apply to settings that `options` does not set. Raises `psycopg2.Error`
    (`MissingDatabaseError`: the server has no such database), and `InfrastructureError` (`database_unfit`)
    if a pooler in between dropped the settings: values would have other texts, and nothing would time out.
    Costs two more round trips, and a second connection if the role has settings of `_OF_LATER_SERVERS`.
    """
    own = parse_dsn(dsn).get("options", "")
    settings = _OF_LATER_SERVERS | settings_in(f"{session(_OURS)} {own} {options}")
    for setting in _NOT_BY_OPTIONS & settings.keys():
        del settings[setting]
    try:
        conn = _open(dsn, name, own, options)
    except psycopg2.OperationalError as e:
        if _NO_OPTIONS in str(e):
            raise _unfit(dsn, settings) from None
        if is_missing(e):
            raise MissingDatabaseError("the server has no such database") from None
        raise
    try:
        lacking = _lacking(conn, settings)
    except psycopg2.Error:
        conn.close()
        raise
    if lacking:
        conn.close()
        later = {setting: settings[setting] for setting in lacking if setting in _OF_LATER_SERVERS}
        if later and not later.keys() & settings_in(options).keys():
            pinned = session(f"{setting}={value}" for setting, value in later.items())
            return connect(dsn, name=name, options=f"{options} {pinned}")
        raise _unfit(dsn, {setting: settings[setting] for setting in lacking})
    return conn


def settings_in(options: str) -> dict[str, str]:
    """Return the settings (name to value) in a connection's options; the last value of a name counts."""
    return {
        name.lower().replace("-", "_"): re.sub(r"\\(.)", r"\1", value)
        for name, value in _SETTING.findall(options)
    }


def _lacking(conn: connection, settings: Mapping[str, str]) -> list[str]:
    with conn.cursor() as cur:
        cur.execute(_LACKING, (list(settings), list(settings.values()), list(_OF_LATER_SERVERS)))
        lacking = [name for (name,) in cur.fetchall()]
    conn.rollback()
    return lacking


def _unfit(dsn: str, lacking: Mapping[str, str]) -> InfrastructureError:
    """Return the error for a session without these settings, which are no secrets."""
    role = identifier(parse_dsn(dsn).get("user", "…"))
    given = "; ".join(f"ALTER ROLE {role} SET {name} = {_value(name, lacking[name])}" for name in lacking)
    return InfrastructureError(
        DATABASE_UNFIT,
        "a pooler (PgBouncer) before the database drops settings of sessions: connect to Postgres itself, "
        f"or have the pooler ignore `options` and give the role that connects the settings: {given}",
    )


def _value(name: str, value: str) -> str:
    """Return a setting's value for SQL: the names of a list are separate literals."""
    return value if name == _LIST else "'" + value.replace("'", "''") + "'"


def _open(dsn: str, name: str, own: str, options: str) -> connection:
    return psycopg2.connect(
        dsn,
        connection_factory=Session,
        cursor_factory=_Cursor,
        # The last of two settings with the same name counts.
        options=f"{session(_OURS)} {own} {_SERVERS} {options}".strip(),
        # Another encoding, from a role's or a database's settings, would change texts. Not in the
        # options: an encoding in the address or in PGCLIENTENCODING would come after them.
        client_encoding="UTF8",
        application_name=name,
        connect_timeout=_CONNECT_SECONDS,
        keepalives_idle=_IDLE_SECONDS,
        keepalives_interval=_INTERVAL_SECONDS,
        keepalives_count=_COUNT,
        tcp_user_timeout=_UNACKNOWLEDGED_MS,
    )
