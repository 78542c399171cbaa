"""Names of a source's objects at the source, in Kafka Connect and on Kafka."""

from typing import Final

#: The prefix of a source's topics; the writer reads all topics with it.
_TOPIC_PREFIX: Final = "cdc."
#: The delimiter between the parts of a topic's name: with dots `app_x.y` and `app.x_y` collide in Kafka.
DELIMITER: Final = "-"


def slot(source: str) -> str:
    """Return the name of the source's replication slot."""
    return f"onramp_{source}"


def publication(source: str) -> str:
    """Return the name of the source's publication."""
    return f"onramp_{source}"


def connector(source: str) -> str:
    """Return the name of the source's connector."""
    return f"onramp-{source}"


def topic_prefix(source: str) -> str:
    """Return the prefix of the source's topics."""
    return f"{_TOPIC_PREFIX}{source}"


def signal_topic(source: str) -> str:
    """Return the topic of signals that request re-snapshots from the connector."""
    return f"{topic_prefix(source)}{DELIMITER}signal"


def message_topic(source: str) -> str:
    """Return the topic of logical messages, which Debezium names without regard to the delimiter."""
    return f"{topic_prefix(source)}.message"


def topic(source: str, schema: str, table: str) -> str:
    """Return a table's topic as Debezium names it: characters that Kafka does not allow are replaced."""
    parts = (_part(schema), _part(table))
    return DELIMITER.join((topic_prefix(source), *parts))


def _part(name: str) -> str:
    """Return a Postgres name with `_` for each character (as Java counts) that a topic cannot have."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c in "._-") else "_" * (len(c.encode("utf-16-le")) // 2)
        for c in name
    )
