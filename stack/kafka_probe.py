"""Asks a Kafka broker which brokers of its cluster are up.

An open port says nothing: a broker accepts connections long before it has joined its
cluster. Its metadata names the brokers that have.
"""

from typing import Final

#: A broker that has joined answers in milliseconds; also how late a Ctrl-C may be heard meanwhile.
_SECONDS: Final = 1.0
_SETTINGS: Final = {
    # Not being there yet is what is asked about, and nothing for a terminal.
    "log_level": 0,
    # It is looked for again within the question, so that it is met soon after it listens.
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}


def brokers_up(host: str, port: int) -> frozenset[int]:
    """Return the ids of the brokers that this one knows to be up; none while it cannot answer.

    Blocks for at most a second.  A client of its own each time: an older one would know other
    brokers of the cluster and might ask those.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415 - only who starts a Kafka needs it
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    client = AdminClient({**_SETTINGS, "bootstrap.servers": f"{host}:{port}"})
    try:
        return frozenset(client.list_topics(timeout=_SECONDS).brokers)
    except KafkaException:
        return frozenset()
