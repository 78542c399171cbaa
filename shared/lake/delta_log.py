"""Opens the lake's Delta tables, and reads owner and positions from their logs."""

from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from shared.lake.storage import Storage
from shared.lake.transactions import OWNER, TablePosition, landed_id, position_id

#: The protocol that every reader of Delta tables implements.
READER_VERSION: Final = 1
WRITER_VERSION: Final = 2


def open_table(storage: Storage, table: str) -> DeltaTable | None:
    """Return the table's newest version, or None if there is no table.  Raise delta-rs' errors."""
    try:
        return DeltaTable(storage.table_url(table), storage_options=storage.options())
    except TableNotFoundError:
        return None


def owner_of(table: DeltaTable) -> str | None:
    """Return the Kafka cluster whose Onramp writes the table; None for a table of another program."""
    return table.metadata().configuration.get(OWNER)


def position_of(table: DeltaTable, topic_id: str, partition: int) -> TablePosition | None:
    """Return the table's position in a partition; None if no row of the partition has landed."""
    next_offset = table.transaction_version(position_id(topic_id, partition))
    if next_offset is None:
        return None
    return TablePosition(next_offset, table.transaction_version(landed_id(topic_id, partition)) or 0)
