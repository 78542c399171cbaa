"""The versions of a transform are read from the registry's log once for each of its states."""

from services.admin.registry_api.transforms import TransformVersions
from services.ops.registry.database_addresses import KnownPlaces
from services.ops.registry.registry_reader import RegistryReader
from services.ops.transforms.deploys import with_source
from shared.registry import Snapshot
from shared.registry.difference import difference
from shared.registry.editor import Editor
from shared.registry.log import MemoryLog, Record
from shared.settings import KafkaSettings, RegistrySettings

TYPES = {
    "event_types": {"read": {}, "made": {}},
    "transforms": {"shown": {"from": "read", "to": ["made"]}},
}


class CountingLog(MemoryLog):
    """Counts the reads of the whole log."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def read(self, first: int, end: int) -> list[Record]:
        self.reads += first == 0
        return super().read(first, end)

    def put(self, wanted: Snapshot) -> None:
        editor = Editor(self)
        editor.write(difference(editor.chain, wanted), "ada", "why")

    def deploy(self, source: str) -> None:
        self.put(with_source(Editor(self).chain.snapshot(), "shown", source))


def test_the_log_is_read_again_only_after_a_change() -> None:
    log = CountingLog()
    log.put(Snapshot.model_validate(TYPES))
    log.deploy("a")
    desk = RegistryReader(KafkaSettings(), RegistrySettings(), KnownPlaces({}), opened=lambda: log)
    versions = TransformVersions(desk)
    assert [each.source for each in versions.of("shown")] == ["a"]
    log.reads = 0
    assert [each.source for each in versions.of("shown")] == ["a"]
    assert versions.of("another") == []
    assert log.reads == 0
    log.deploy("b")
    assert [each.source for each in versions.of("shown")] == ["a", "b"]
