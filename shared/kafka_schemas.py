"""Schemas of requests that aiokafka does not have: fields, and a list of partitions for each topic.

Whatever a request asks, and a leader answers, of partitions has this form in Kafka's protocol.
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

#: Ends each part of a flexible version's message.
TAGS: Final = ("tags", TaggedFields)


def by_partition(*fields: Field, partition: tuple[Field, ...]) -> Schema:
    """Return the schema of `fields`, and what `partition` has for each of some topics' partitions."""
    topic = (("topic", String("utf-8")), ("partitions", Array(*partition)))
    return Schema(*fields, ("topics", Array(*topic)))


def flexible_by_partition(*fields: Field, partition: tuple[Field, ...]) -> Schema:
    """Return the same in the compact form, with tags, that flexible versions have."""
    topic = (("topic", CompactString("utf-8")), ("partitions", CompactArray(*partition, TAGS)), TAGS)
    return Schema(*fields, ("topics", CompactArray(*topic)), TAGS)
