"""The registry's log: every reader accepts the same changes, and only a change can empty it."""

import random
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import orjson
import pytest

from shared.errors import KAFKA_UNAVAILABLE, REGISTRY_UNREAD, InfrastructureError
from shared.registry import Snapshot, entries
from shared.registry.change_log import FORMAT, NOTHING, Chain, ChangeSet, Ruling
from shared.registry.log import MemoryLog, Record, Span
from shared.registry.log_registry import LogRegistry

HASH = "ab" * 32
KEY = {"hashes": [{"sha256": HASH}]}


def record(after: int, put: Any = None, **more: Any) -> bytes:
    change = {"format": 1, "after": after, "actor": "a", "time": "2026-01-01T00:00:00Z", "put": put or {}}
    return orjson.dumps(change | more)


def of(*values: bytes | None) -> tuple[Chain, list[Ruling]]:
    chain = Chain()
    return chain, [chain.take(n, value).ruling for n, value in enumerate(values)]


def test_a_change_set_counts_as_a_whole_or_not_at_all() -> None:
    both = {"event_types": {"good": {}, "Bad": {}}, "keys": {"shop": KEY}}
    chain, rulings = of(
        record(-1, both), record(-1, {"keys": {"shop": KEY}}), record(1, {"keys": {"b": KEY}})
    )
    assert rulings == [Ruling.CORRUPT, Ruling.COUNTED, Ruling.COUNTED]
    assert chain.document() == {"keys": {"shop": KEY, "b": KEY}}


def test_second_record_with_the_same_predecessor_is_void() -> None:
    chain, rulings = of(
        record(-1, {"keys": {"a": KEY}}), record(-1, {"keys": {"b": KEY}}), record(0, {"keys": {"c": KEY}})
    )
    assert rulings == [Ruling.COUNTED, Ruling.VOID, Ruling.COUNTED]
    assert set(chain.snapshot().keys) == {"a", "c"}


def test_deletion_of_an_absent_entry_voids_its_record() -> None:
    chain, rulings = of(
        record(-1, {"keys": {"a": KEY, "b": KEY}}),
        record(0, delete={"keys": ["a", "x"]}),
        record(0, delete={"keys": ["a"]}),
        record(2, delete={"grants": ["a"]}),
    )
    assert rulings == [Ruling.COUNTED, Ruling.VOID, Ruling.COUNTED, Ruling.CORRUPT]
    assert list(chain.snapshot().keys) == ["b"]


def test_sources_and_models_that_do_not_fit_together_do_not_count_for_any_reader() -> None:
    source = {"dsn_env": "ONRAMP_SOURCE_S", "schemas": ["app"], "publish": "p"}
    chain, rulings = of(
        record(-1, {"models": {"s.app.t": {}}}),
        record(-1, {"sources": {"s": source}, "models": {"s.app.t": {}}}),
        record(1, {"sources": {"r": source}}),
        record(1, delete={"sources": ["s"]}),
        record(1, {"sources": {"r": source}}, delete={"sources": ["s"], "models": ["s.app.t"]}),
    )
    assert rulings == [Ruling.VOID, Ruling.COUNTED, Ruling.VOID, Ruling.VOID, Ruling.COUNTED]
    assert list(chain.snapshot().sources) == ["r"]


def test_unnamed_section_is_replaced_and_the_document_preserves_entries_verbatim() -> None:
    grants = [{"topic": "a", "schema": "x"}]
    types = {"a": {"contract": {"unknown_fields": "freeze"}, "schema": {"const": 1}}}
    chain, _ = of(
        record(-1, {"grants": [{"topic": "z"}], "unknown_names": "refuse", "event_types": types}),
        record(0, {"grants": grants}),
    )
    assert chain.document() == {"grants": grants, "unknown_names": "refuse", "event_types": types}
    assert chain.snapshot() == Snapshot.model_validate(chain.document())
    assert chain.snapshot().digest == Snapshot.model_validate(chain.document()).digest


def test_change_serializes_and_hashes_only_the_changed_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of types that would take tens of milliseconds in which nothing else runs."""
    chain, _ = of(record(-1, {"event_types": {f"type_{n}": {"owner": "a"} for n in range(50)}}))
    first, pieces, write = chain.snapshot(), list[Any](), entries._sha256
    monkeypatch.setattr(entries, "_sha256", lambda written: pieces.append(written) or write(written))
    chain.take(1, record(0, {"event_types": {"type_7": {"owner": "b"}}}))
    changed = chain.snapshot()
    assert [piece["owner"] for piece in pieces if "owner" in piece] == ["b"]
    assert changed.digest != first.digest
    assert changed.digest == Snapshot.model_validate(chain.document()).digest
    assert changed == Snapshot.model_validate(chain.document())


def test_a_copy_of_an_entry_is_known_by_what_it_says() -> None:
    entry = Snapshot.model_validate({"keys": {"a": KEY}}).keys["a"]
    before = entry.fingerprint()
    assert entry.model_copy(update={"events": ("x",)}).fingerprint() != before


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"1",
        b"\xff" * 100,
        b"[" * 100_000,
        b'{"format":' * 2000 + b"1" + b"}" * 2000,
        b'{"format":true,"after":-1,"actor":"a","time":"2026-01-01T00:00:00Z"}',
        b'{"format":1,"after":-1,"after":-1,"actor":"a","time":"2026-01-01T00:00:00Z"}',
        record(-1, format="1"),
        record(-1, format=0),
        record(-1, format=-1),
        record(-1, actor=""),
        record(-1, time="2026-01-01"),
        record(-1, more=1),
        record(-1, {"event_types": {"onramp_mine": {}}}),
        record(-1, {"event_types": {"a": {"schema": {"enum": [[[[]]] * 10] * 12_000}}}}),
        record(True),  # type: ignore[arg-type]
        record("-1"),  # type: ignore[arg-type]
        record(-2),
    ],
)  # fmt: skip
def test_garbage_is_no_change_set(garbage: bytes | None) -> None:
    chain, rulings = of(garbage, record(-1, {"keys": {"a": KEY}}))
    assert rulings == [Ruling.CORRUPT, Ruling.COUNTED]
    assert chain.last == 1


def test_record_of_invalid_entries_is_evaluated_up_to_a_limit_and_reported_in_part() -> None:
    wrong = {"event_types": {f"Wrong {n}": {} for n in range(3_000)}}
    verdict = Chain().evaluate(record(-1, wrong))
    assert verdict.ruling is Ruling.CORRUPT
    first, *_, last = verdict.reason.split("; ")
    assert first.startswith("put.event_types.Wrong 0")
    assert last == "and 480 more"  # of 500 that were judged; 2,500 were not
    right = record(-1, {"event_types": {f"right_{n}": {"owner": "x"} for n in range(3_000)}})
    chain, rulings = of(right)
    assert rulings == [Ruling.COUNTED]
    assert chain.snapshot() == Snapshot.model_validate(orjson.loads(right)["put"])


def test_newer_format_ends_the_chain_only_if_its_record_follows_the_last_record() -> None:
    later = record(0, format=FORMAT + 1, news=True)
    chain, rulings = of(
        record(-1, {"keys": {"a": KEY}}),
        record(-1, format=FORMAT + 1),
        later,
        record(0, {"keys": {"b": KEY}}),
        record(2, {"keys": {"c": KEY}}),
    )
    assert rulings == [Ruling.COUNTED, Ruling.CORRUPT, Ruling.NEWER, Ruling.NEWER, Ruling.NEWER]
    assert chain.is_outgrown
    assert list(chain.snapshot().keys) == ["a"]


def test_the_rules_of_a_format_do_not_change() -> None:
    """Another field, section or bound: raise FORMAT and keep the rules of the format before."""
    rules = orjson.dumps(without_prose(ChangeSet.model_json_schema()), option=orjson.OPT_SORT_KEYS)
    assert (FORMAT, sha256(rules).hexdigest()[:16]) == (1, "227a09301d4d3546")


def without_prose(schema: Any) -> Any:
    """Return the schema without descriptions: a field of that name is not text."""
    if isinstance(schema, list):
        return [without_prose(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    is_text = isinstance(schema.get("description"), str)
    return {
        name: without_prose(each) for name, each in schema.items() if name != "description" or not is_text
    }


class Scenario:
    """Writers that read, decide and write in any order; some write garbage or follow an old state."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = MemoryLog()
        self.readers = [LogRegistry(self.log) for _ in range(3)]
        self.won: list[bytes] = []

    def run(self) -> None:
        views: list[tuple[int, bytes]] = []
        for n in range(120):
            match self.random.choice(("look", "look", "write", "write", "garbage", "hole")):
                case "look":
                    reader = self.random.choice(self.readers)
                    reader.refresh()
                    assert reader.chain is not None
                    views.append((reader.chain.last, self.change(reader.chain, n)))
                case "write" if views:
                    self.log.append(views.pop(self.random.randrange(len(views)))[1])
                case "garbage":
                    self.log.append(self.garbage())
                case "hole":  # a transaction's marker
                    self.log.records.append(Record(self.log.span().end + self.random.randrange(3), None))

    def change(self, chain: Chain, n: int) -> bytes:
        there = sorted(chain.document().get("keys", {}))
        deleted = self.random.sample(there, self.random.randrange(len(there) + 1)) if there else []
        put = {"keys": {f"key-{self.random.randrange(9)}": KEY}} if self.random.random() < 0.8 else {}
        return record(chain.last, put, actor=f"writer {n}", delete={"keys": deleted} if deleted else {})

    def garbage(self) -> bytes:
        whole = bytearray(self.log.records[-1].value or b"{}" if self.log.records else b"{}")
        for _ in range(self.random.randrange(4)):
            whole[self.random.randrange(len(whole))] = self.random.randrange(256)
        return bytes(whole[: self.random.randrange(len(whole) + 1)])


@pytest.mark.parametrize("seed", range(60))
def test_every_reader_decides_alike(seed: int) -> None:
    scenario = Scenario(seed)
    scenario.run()
    late = LogRegistry(scenario.log)
    everyone = [*scenario.readers, late]
    for reader in everyone:
        reader.refresh()
    assert len({(r.snapshot().digest, r.chain and r.chain.last) for r in everyone}) == 1
    counted = model_of(scenario.log)
    assert late.chain is not None
    assert late.chain.last == (counted[-1] if counted else NOTHING)


def model_of(log: MemoryLog) -> list[int]:
    """The same rules, written the other way round: which records count, and that each follows the last."""
    counted: list[int] = []
    keys: set[str] = set()
    for offset, value in log.records:
        try:
            change = ChangeSet.model_validate_json(value or b"")
        except ValueError:
            continue
        deleted = set(change.delete.get("keys", ()))
        if change.after == (counted[-1] if counted else NOTHING) and deleted <= keys:
            keys = (keys - deleted) | set(change.put.keys)
            counted.append(offset)
    return counted


def test_it_is_unread_until_its_end_was_reached() -> None:
    log = Flaky()
    log.append(record(-1, {"keys": {"a": KEY}}))
    registry = LogRegistry(log)
    log.is_out = True
    assert not registry.refresh()
    assert not registry.is_read
    assert not registry.is_valid
    with pytest.raises(InfrastructureError) as raised:
        registry.snapshot()
    assert raised.value.fault is REGISTRY_UNREAD
    log.is_out = False
    assert registry.refresh()
    assert list(registry.snapshot().keys) == ["a"]
    log.is_out = True
    assert not registry.refresh()
    assert registry.is_valid
    assert registry.trouble


def test_an_empty_log_is_a_registry_of_nothing() -> None:
    log = MemoryLog()
    registry = LogRegistry(log)
    assert not registry.is_blank
    assert registry.refresh()
    assert registry.is_read
    assert registry.is_valid
    assert registry.is_blank
    assert not registry.snapshot().keys
    log.append(record(-1, {"keys": {"a": KEY}}))
    log.append(record(0, delete={"keys": ["a"]}))
    registry.refresh()
    assert not registry.is_blank
    assert not registry.snapshot().keys


class Flaky(MemoryLog):
    def __init__(self) -> None:
        super().__init__()
        self.is_out = False

    def span(self) -> Span:
        if self.is_out:
            raise InfrastructureError(KAFKA_UNAVAILABLE, "it is out")
        return super().span()


def following(*values: bytes) -> tuple[MemoryLog, LogRegistry]:
    log = MemoryLog()
    for value in values:
        log.append(value)
    registry = LogRegistry(log)
    assert registry.refresh()
    return log, registry


FIRST = record(-1, {"keys": {"a": KEY}, "event_types": {"t": {}}})


@pytest.mark.parametrize(
    "anew",
    [
        [],
        [b"garbage"] * 5,
        [record(-1, {"event_types": {"t": {}}})],
        [record(-1, {"event_types": {"t": {}}}), record(0, reason="anew"), record(1)],
        [record(-1, {"keys": {"b": KEY}})],
        [record(-1, {"keys": {"b": KEY}}), record(0, delete={"keys": ["b"]}), record(1)],
    ],
)
def test_recreated_log_leaves_the_last_snapshot_and_invalidates_the_registry(anew: list[bytes]) -> None:
    log, registry = following(FIRST, record(0))
    log.records.clear()
    for value in anew:
        log.append(value)
    registry.refresh()
    assert list(registry.snapshot().keys) == ["a"]
    assert not registry.is_valid
    assert "recreated" in registry.trouble

    log.records.clear()
    log.append(record(-1, {"keys": {"c": KEY}, "event_types": {"u": {}}}))
    for n in range(6):
        log.append(record(n, actor="somebody else"))
    registry.refresh()
    assert list(registry.snapshot().keys) == ["c"]
    assert registry.is_valid


def test_revocation_of_the_last_key_in_the_same_log_takes_effect() -> None:
    log, registry = following(FIRST)
    log.append(record(0, delete={"keys": ["a"]}))
    assert registry.refresh()
    assert not registry.snapshot().keys


def test_log_without_its_beginning_leaves_the_snapshot_and_a_new_registry_unread() -> None:
    log, registry = following(FIRST, record(0))
    log.first = 1
    log.records.pop(0)
    log.append(record(1, delete={"keys": ["a"]}))
    registry.refresh()
    assert list(registry.snapshot().keys) == ["a"]
    assert not registry.is_valid
    late = LogRegistry(log)
    late.refresh()
    assert not late.is_read


def test_a_log_that_lost_its_end_is_read_from_there() -> None:
    log, registry = following(FIRST, b"garbage", b"garbage")
    del log.records[1:]
    registry.refresh()
    log.append(record(0, {"keys": {"b": KEY}}))
    assert registry.refresh()
    assert list(registry.snapshot().keys) == ["a", "b"]


def test_snapshot_that_a_service_rejects_leaves_its_last_snapshot_and_the_chain_continues() -> None:
    log = MemoryLog()

    def check(snapshot: Snapshot) -> None:
        if "elsewhere" in snapshot.event_types:
            raise ValueError("no such database")

    picky, other = LogRegistry(log, check), LogRegistry(log)
    log.append(FIRST)
    assert picky.refresh()
    log.append(record(0, {"event_types": {"elsewhere": {}}}))
    assert not picky.refresh()
    assert other.refresh()
    assert picky.trouble == "no such database"
    assert not picky.is_valid
    assert "elsewhere" not in picky.snapshot().event_types
    assert "elsewhere" in other.snapshot().event_types
    log.append(record(1, {"keys": {"b": KEY}}, delete={"event_types": ["elsewhere"]}))
    assert picky.refresh()
    assert picky.is_valid
    assert picky.snapshot().digest == LogRegistry_of(log).snapshot().digest


def LogRegistry_of(log: MemoryLog) -> LogRegistry:  # noqa: N802
    registry = LogRegistry(log)
    registry.refresh()
    return registry


def test_newer_format_freezes_a_running_registry_and_leaves_a_new_registry_unread() -> None:
    log, registry = following(FIRST)
    log.append(record(0, format=FORMAT + 1))
    registry.refresh()
    assert list(registry.snapshot().keys) == ["a"]
    assert "later release" in registry.trouble
    assert not LogRegistry_of(log).is_read


def test_void_and_corrupt_records_are_logged_without_their_values(caplog: pytest.LogCaptureFixture) -> None:
    following(FIRST, record(0, {"keys": {"a": {"hashes": [{"sha256": HASH + "0"}]}}}), record(5), b"garbage")
    told = [(r.__dict__["offset"], r.__dict__["ruling"]) for r in caplog.records if "ruling" in r.__dict__]
    assert told == [(1, "corrupt"), (2, "void"), (3, "corrupt")]
    assert HASH not in str([vars(each) for each in caplog.records])


def test_ten_thousand_changes_are_judged_once_each() -> None:
    log = MemoryLog()
    for n in range(10_000):
        now = datetime.now(UTC).isoformat()
        log.append(record(n - 1, {"event_types": {f"type_{n % 500}": {"owner": str(n)}}}, time=now))
    registry = LogRegistry_of(log)
    assert registry.chain is not None
    assert registry.chain.last == 9_999
    assert registry.snapshot().event_types["type_499"].owner == "9999"
