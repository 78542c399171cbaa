"""A refill replays missing events in pieces of a batch's size."""

from services.writer.batching.byte_sizes import ByteSizes
from services.writer.databases.halts import Gap
from services.writer.driver.resolve_halt import _pieces
from services.writer.settle.work_order import TaskReport
from shared.kafka_read.offsets import Partition, Range

PARTITION = Partition("events.e", 0)
MB = 1_000_000
GAP = Gap("id", PARTITION, 0, 10_000, marked=False)
MARKED = GAP._replace(marked=True)


def test_a_replay_is_cut_by_what_its_pieces_before_taught() -> None:
    sizes, lengths = ByteSizes(64 * MB), []
    for piece in _pieces([GAP], 5_000, sizes):
        lengths.append(len(piece))
        sizes.count([TaskReport(*PARTITION, read=len(piece), size=len(piece) * MB)])
    assert lengths[:3] == [64 * MB >> 16, 64, 64]
    assert sum(lengths) == 10_000


def test_a_marker_is_replaced_whole() -> None:
    assert list(_pieces([MARKED], 5_000, ByteSizes(MB))) == [Range("id", PARTITION, 0, 10_000)]
