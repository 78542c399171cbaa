"""Builds queries that are limited by bytes, so that a step is bounded by memory and not only by rows."""


def bytes_of(rows: str, order: str) -> str:
    """Wrap the query `rows`, with one more parameter: the total bytes of `value` at which it stops.

    The first row is always returned, regardless of its size.  A value that is stored out of line
    (TOAST) has its length in the row, so only returned values are fetched.
    """
    before = f"ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    return f"""
    SELECT * FROM (
        SELECT *, sum(octet_length(value)) OVER ({before}) AS bytes_before FROM ({rows}) AS first
    ) AS counted WHERE coalesce(bytes_before, 0) < %s ORDER BY {order}
    """  # noqa: S608 - the callers' own SQL
