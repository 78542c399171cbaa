"""The partition of a key on Kafka, the same for the gateway, the writer and other clients."""

from binascii import crc32


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key: CRC32 modulo partitions.

    It equals librdkafka's ``consistent`` partitioner, so that a C, Go or Node producer
    preserves a key's order. Python's ``hash()`` differs per process.
    """
    return crc32(key) % partitions
