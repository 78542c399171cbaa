"""Schemas of requests that aiokafka lacks: fields, and a list of partitions for each topic.

Requests and responses about partitions have this form in Kafka's protocol.
"""

from typing import Final

from aiokafka.protocol.types import (
    AbstractType,
    Array,
    CompactArray,
    CompactString,
    Schema,
    String,
    TaggedFields,
)

Field = tuple[str, AbstractType]

#: Empty tagged fields, which end each part of a flexible version's message.
TAGS: Final = ("tags", TaggedFields)


def by_partition(*fields: Field, partition: tuple[Field, ...]) -> Schema:
    """Return the schema of `fields`, followed by `partition` for each partition of each topic."""
    topic = (("topic", String("utf-8")), ("partitions", Array(*partition)))
    return Schema(*fields, ("topics", Array(*topic)))


def flexible_by_partition(*fields: Field, partition: tuple[Field, ...]) -> Schema:
    """Return the same in the compact form with tags of flexible versions."""
    topic = (("topic", CompactString("utf-8")), ("partitions", CompactArray(*partition, TAGS)), TAGS)
    return Schema(*fields, ("topics", CompactArray(*topic)), TAGS)
