"""Rows of a table up to a number of bytes: what a step takes is bounded by memory, not by rows alone."""


def bytes_of(rows: str, order: str) -> str:
    """The query `rows`, with one parameter more: until those before have so many bytes of `value`.

    So one comes always, however large it is.  The length of a value that is stored out of its row
    stands in the row: none is fetched that is not taken.
    """
    before = f"ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    return f"""
    SELECT * FROM (
        SELECT *, sum(octet_length(value)) OVER ({before}) AS bytes_before FROM ({rows}) AS first
    ) AS counted WHERE coalesce(bytes_before, 0) < %s ORDER BY {order}
    """  # noqa: S608 - the callers' own words
