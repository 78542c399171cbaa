"""Names that a source's capture has at the source, in Kafka Connect and on Kafka."""

from typing import Final

#: Before a source's name in those of its topics; the writer reads what begins so.
_TOPIC_PREFIX: Final = "cdc."
#: Between the parts of a topic's name: with dots `app_x.y` and `app.x_y` collide in Kafka.
DELIMITER: Final = "-"


def slot(source: str) -> str:
    """Return the name of its replication slot."""
    return f"onramp_{source}"


def publication(source: str) -> str:
    """Return the name of its publication."""
    return f"onramp_{source}"


def connector(source: str) -> str:
    """Return the name of its connector."""
    return f"onramp-{source}"


def topic_prefix(source: str) -> str:
    """Return what the names of its topics begin with."""
    return f"{_TOPIC_PREFIX}{source}"


def signal_topic(source: str) -> str:
    """Return the topic by which its connector is asked to read tables again."""
    return f"{topic_prefix(source)}{DELIMITER}signal"


def message_topic(source: str) -> str:
    """Return the topic of messages in its log, as Debezium names it whatever the delimiter is."""
    return f"{topic_prefix(source)}.message"


def topic(source: str, schema: str, table: str) -> str:
    """Return a table's topic, as Debezium names it: what Kafka does not take is replaced."""
    parts = (_part(schema), _part(table))
    return DELIMITER.join((topic_prefix(source), *parts))


def _part(name: str) -> str:
    """Return a name of Postgres with `_` for each character that a topic cannot have, as Java counts them."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c in "._-") else "_" * (len(c.encode("utf-16-le")) // 2)
        for c in name
    )
