"""Queries for the stored state of sources, and operators' requests to the agent."""

from typing import Any, Final, NamedTuple

from services.cdc.agent.source_state_sql import StateStoreError, asking
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError

_SOURCES: Final = "onramp_agent.sources"
_MODELS: Final = "onramp.table_settings"
#: The agent polls each source every second: an older report means that the agent has ended or hangs.
SILENT_SECONDS: Final = 60.0
_LIST: Final = """
    SELECT source, state, reason, slot_active, wal_status, retained_bytes, heartbeat_age_s,
           polled_at, extract(epoch FROM clock_timestamp() - polled_at)::float8 AS polled_s_ago,
           out_of_sync_lsn::text, out_of_sync_at, resync_requested_at,
           (SELECT count(merged_at) FROM onramp.table_settings m WHERE m.source = s.source) AS tables,
           (SELECT coalesce(jsonb_agg(jsonb_build_object(
                'table', schema_name || '.' || table_name, 'since', suspended_since, 'reason', m.reason)
                ORDER BY schema_name, table_name), '[]')
            FROM onramp.table_settings m WHERE m.source = s.source AND m.reason IS NOT NULL) AS suspended
    FROM onramp_agent.sources s ORDER BY source
"""
#: A table is behind while changes that have landed are not merged.
_PROGRESS: Final = """
    SELECT s.state, s.reason, extract(epoch FROM clock_timestamp() - s.polled_at)::float8,
        s.resync_requested_at IS NOT NULL OR s.out_of_sync_at IS NOT NULL OR s.state <> 'streaming'
            OR NOT s.streams, m.*
    FROM onramp_agent.sources s CROSS JOIN LATERAL (
        SELECT count(*), count(*) FILTER (WHERE m.reason IS NULL AND EXISTS (
                SELECT FROM onramp.totals t JOIN onramp.ledger l USING (topic_id, partition)
                WHERE t.destination = 'landing.' || m.landing AND t.topic_id <> ALL (m.past_topics)
                  AND l.next_offset > m.next_offset)),
            coalesce(sum((SELECT sum(t.events) FROM onramp.totals t
                WHERE t.destination = 'landing.' || m.landing AND t.outcome = 'landed')), 0)::int8
        FROM onramp.table_settings m WHERE m.source = s.source) AS m (tables, behind, landed)
    WHERE s.source = %s
"""
_RESYNC: Final = """
    UPDATE onramp_agent.sources SET resync_requested_at = clock_timestamp(),
        out_of_sync_at = coalesce(out_of_sync_at, clock_timestamp()),
        out_of_sync_why = coalesce(out_of_sync_why, 'an operator requested a resync')
    WHERE source = %s RETURNING 1
"""
#: Changes before `trimmed_to` are gone; parked changes that were replayed are among the rest.  Where a table
#: begins within its log, earlier changes may be repeated, and its snapshot may include later ones.
_REBUILD: Final = """
    UPDATE onramp.table_settings m
    SET next_offset = begins_at, clear_at = begins_at, clear_after = next_offset,
        carried = NULL,
        last_commit = CASE WHEN begins_at > coalesce(log_begins_at, 0) THEN last_commit END,
        last_order = CASE WHEN begins_at > coalesce(log_begins_at, 0) THEN last_order END,
        (snapshot, snapshot_before) = (
            SELECT min(snapshot::text)::pg_snapshot, min(lsn) FROM (
                SELECT r.snapshot, r.lsn FROM onramp.source_resnapshots r
                WHERE (r.source, r.schema_name, r.table_name) = (m.source, m.schema_name, m.table_name)
                  AND r.start = m.begins_at AND m.begins_at > 0 ORDER BY r.id DESC LIMIT 1) AS last),
        drops = 0, reason = NULL, suspended_since = NULL, parked_known = (
            SELECT coalesce(sum(t.events), 0) FROM onramp.totals t
            WHERE t.destination = 'landing.' || m.landing AND t.outcome = 'parked'
              AND t.topic_id <> ALL (m.past_topics))
    WHERE source = %s AND schema_name = %s AND table_name = %s AND coalesce(trimmed_to, 0) <= begins_at
    RETURNING pg_notify('onramp_landing', '')
"""
_TRIMMED: Final = """
    SELECT trimmed_to FROM onramp.table_settings WHERE source = %s AND schema_name = %s AND table_name = %s
"""


class Progress(NamedTuple):
    """The progress of a resync; `landed` counts the changes of all tables, including earlier ones."""

    state: str
    reason: str
    polled_s_ago: float
    #: Whether the agent has not begun, or the source is not streaming again.
    is_pending: bool
    tables: int
    behind: int
    landed: int

    @property
    def is_over(self) -> bool:
        """Return whether everything was re-snapshotted and merged; suspended tables are ignored."""
        return not self.is_pending and not self.behind

    @property
    def trouble(self) -> str:
        """Return the state with its reason."""
        return f"{self.state}: {self.reason}"


def progress(dsn: str, source: str) -> Progress | None:
    """Return the progress of a resync; None for a source not published here. Raises `StateStoreError`."""
    with asking(dsn) as cursor:
        cursor.execute(_PROGRESS, (source,))
        row = cursor.fetchone()
    return None if row is None else Progress(*row)


def listed(dsn: str) -> list[dict[str, Any]]:
    """Return the sources published to a database, as the agent last stored them. Raises `StateStoreError`."""
    return _rows(dsn, _SOURCES, _LIST)


def reported(dsn: str) -> list[dict[str, Any]]:
    """Return what `listed` returns. Raises `InfrastructureError`, as the queries of the services do."""
    try:
        return listed(dsn)
    except StateStoreError as error:
        raise InfrastructureError(DATABASE_UNAVAILABLE, str(error)) from None


def ask_for_resync(dsn: str, source: str) -> bool:
    """Request a resync; return whether the source is published here. Raises `StateStoreError`."""
    return bool(_rows(dsn, _SOURCES, _RESYNC, source))


def rebuild(dsn: str, source: str, schema: str, table: str) -> str:
    """Have the merger rebuild a table from the beginning of its landing. Raises `StateStoreError`.

    Returns why that cannot be; empty when it is done.
    """
    if _rows(dsn, _MODELS, _REBUILD, source, schema, table):
        return ""
    if _rows(dsn, _MODELS, _TRIMMED, source, schema, table):
        return (
            "the beginning of what landed is trimmed (keep_landing), so it cannot be merged again: "
            f"re-snapshot the source by `onramp sources resync {source}`"
        )
    return "it is not published here: `onramp sources list` shows what is"


def _rows(dsn: str, table: str, query: str, *arguments: object) -> list[dict[str, Any]]:
    with asking(dsn) as cursor:
        cursor.execute("SELECT to_regclass(%s)", (table,))
        if cursor.fetchone() == (None,):
            return []  # no source was ever published here
        cursor.execute(query, arguments)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
