"""The retention of parked events: the condition under which their bytes expire, and the SQL that needs it.

Bytes of open events never expire.
"""

from typing import Final

#: Days that bytes of replayed or discarded events are retained.
RETENTION_DAYS: Final = 7
#: One hour longer than a discard can be undone, so that no restore is in progress.
_EXPIRED: Final = f"""
    state IN ('replayed', 'replayed_duplicate', 'discarded')
    AND changed_at < now() - interval '{RETENTION_DAYS} days 1 hour'
"""
COUNT_EXPIRED: Final = f"""
    SELECT s.first_event, s.last_event, s.name, s.events,
           (SELECT count(*) FROM onramp_admin.events
            WHERE id BETWEEN s.first_event AND s.last_event
            AND NOT gone AND sha256 IS NOT NULL AND {_EXPIRED})
    FROM onramp_admin.segments s ORDER BY 1
"""  # noqa: S608 - our own words
MARK_GONE: Final = f"""
    UPDATE onramp_admin.states s SET gone = true FROM onramp_admin.parked p
    WHERE p.id = s.event AND p.id BETWEEN %s AND %s AND NOT gone AND sha256 IS NOT NULL AND {_EXPIRED}
    RETURNING p.id
"""  # noqa: S608 - our own words
#: The audit needs a finished job's upload as long as the bytes of its events are retained.
DELETE_UPLOADS: Final = f"""
    WITH unused AS (
        SELECT id FROM onramp_admin.uploads u
        WHERE NOT EXISTS (
            SELECT FROM onramp_admin.edits d JOIN onramp_admin.events e ON e.id = d.event
            WHERE d.upload = u.id AND ({_EXPIRED}) IS NOT TRUE
        ) AND NOT EXISTS (
            SELECT FROM onramp_admin.jobs j
            WHERE j.state IN ('running', 'cancelling') AND j.filters ->> 'edits' = u.id::text
        )
    ), edits AS (
        DELETE FROM onramp_admin.edits d USING unused WHERE d.upload = unused.id
    )
    DELETE FROM onramp_admin.uploads u USING unused WHERE u.id = unused.id
"""  # noqa: S608 - our own words
