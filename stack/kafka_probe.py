"""Queries a Kafka broker for the brokers of its cluster that are up.

An open port is not enough: a broker accepts connections long before it has joined its cluster. Its metadata
names the brokers that have joined.
"""

from typing import Final

#: Seconds: a broker that has joined answers in milliseconds. It also bounds the delay of a Ctrl-C.
_SECONDS: Final = 1.0
_SETTINGS: Final = {
    # A broker that is not up yet is an expected result, and not for the terminal.
    "log_level": 0,
    # The client retries within the request, so that it connects soon after the broker listens.
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}


def brokers_up(host: str, port: int) -> frozenset[int]:
    """Return the ids of the brokers that this one knows to be up; none while it cannot answer.

    Blocks for at most a second.  Each call has its own client: an older client would know other brokers
    of the cluster and might query those.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415 - only who starts a Kafka needs it
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    client = AdminClient({**_SETTINGS, "bootstrap.servers": f"{host}:{port}"})
    try:
        return frozenset(client.list_topics(timeout=_SECONDS).brokers)
    except KafkaException:
        return frozenset()
