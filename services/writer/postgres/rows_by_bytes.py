"""Builds queries that are limited by bytes: what a step takes is bounded by memory, not by rows alone."""


def bytes_of(rows: str, order: str) -> str:
    """Wrap the query `rows`, with one more parameter: the bytes of `value` at which it stops.

    The first row is always returned, however large it is.  A value that is stored out of line
    (TOAST) has its length in the row, so no value is fetched that is not returned.
    """
    before = f"ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    return f"""
    SELECT * FROM (
        SELECT *, sum(octet_length(value)) OVER ({before}) AS bytes_before FROM ({rows}) AS first
    ) AS counted WHERE coalesce(bytes_before, 0) < %s ORDER BY {order}
    """  # noqa: S608 - the callers' own SQL
