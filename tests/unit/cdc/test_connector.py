"""The connector's configuration: regular expressions that match one name, and excluded tables."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.cdc.agent import names
from services.cdc.agent.connector import Rendering, TopicSettings, literal
from services.cdc.agent.source_state import Column, SourceState, Table, excluded_tables
from services.cdc.change_detection.table_fingerprint import RowsStamp, why_again
from services.cdc.setup.prepare import statements
from shared.kafka_security import Brokers, KafkaSecurity
from shared.registry.sources import Source

SHOP = Source(
    dsn_env="ONRAMP_SOURCE_SHOP", schemas=("app", "it's, a"), exclude=("app.tmp_*",), publish="shop"
)
TOPICS = TopicSettings(replication=3, min_insync=2, retention_ms=3_600_000)


def table(name: str, *columns: Column, oid: int = 1, is_partition: bool = False) -> Table:
    stamp = RowsStamp(oid=oid, columns={})
    return Table(
        oid=oid,
        schema="app",
        name=name,
        columns=columns or (Column("id", "integer", not_null=True, generated=False),),
        rows_stamp=stamp,
        is_partition=is_partition,
    )


def rendered(*tables: Table) -> dict[str, str]:
    rendering = Rendering(brokers=Brokers("kafka:9092", KafkaSecurity()), topics=TOPICS)
    source_state = SourceState(
        lsn="0/0", tables_lsn="0/0", tables=tables, excluded_tables=excluded_tables(tables, SHOP)
    )
    return rendering.config(
        "shop", SHOP, {"host": "db", "user": "u", "password": "secret", "dbname": "d"}, source_state
    )


def test_no_password_is_in_it() -> None:
    config = rendered()
    assert "secret" not in str(config)
    assert config["database.password"] == "${env:ONRAMP_SOURCE_SHOP_PASSWORD}"


def test_a_name_is_itself_alone_and_no_comma_ends_it() -> None:
    assert literal("a.b,c") == r"a\x{2e}b\x{2c}c"
    schemas = rendered()["schema.include.list"].split(",")
    assert [_python(each) for each in schemas] == ["app", r"it\x27s\x2c\x20a"]


def test_excluded_tables_partitions_and_generated_columns_are_not_captured() -> None:
    generated = Column("total", "integer", not_null=False, generated=True)
    config = rendered(
        table("orders", Column("id", "integer", not_null=True, generated=False), generated),
        table("events_2026", generated, is_partition=True, oid=2),
    )
    excluded = [re.compile(_python(each), re.IGNORECASE) for each in config["table.exclude.list"].split(",")]
    taken = [
        name
        for name in ("app.orders", "app.tmp_1", "app.events_2026", "appxtmp_1", "app.Tmp_1")
        if not any(pattern.fullmatch(name) for pattern in excluded)
    ]
    assert taken == ["app.orders", "appxtmp_1", "app.Tmp_1"]
    assert config["column.exclude.list"] == r"(?-i:app\x{2e}orders\x{2e}total)"


def test_topics_are_made_with_one_partition_and_what_was_asked() -> None:
    config = rendered()
    made = {
        key.removeprefix("topic.creation.default."): value
        for key, value in config.items()
        if key.startswith("topic.creation.default.")
    }
    assert (made["partitions"], made["replication.factor"], made["min.insync.replicas"]) == ("1", "3", "2")
    assert (made["retention.ms"], made["retention.bytes"]) == ("3600000", "-1")


@pytest.mark.parametrize(
    ("names", "out"),
    [
        (("a.b", "a_b"), ["app.a_b"]),
        (("a_b", "a.b"), ["app.a.b"]),
        (("a b", "a_b"), []),  # one topic for both: they are told by `source`
        (("a", "b"), []),
        (("a%", "a"), ["app.a%"]),
        (('a"', 'a"b', '"c', '"'), ['app.a"', 'app."c', 'app."']),  # Debezium takes them for quoted
        (("a\nb", "a\u2028", "a\x0bb"), ["app.a\nb", "app.a\u2028"]),  # a line ends for Java
        (("a.b", "tmp_1"), []),
    ],
)
def test_newer_table_with_a_colliding_topic_name_is_excluded(names: tuple[str, str], out: list[str]) -> None:
    tables = [table(name, oid=oid) for oid, name in enumerate(names)]
    assert list(excluded_tables(tables, SHOP)) == out


def test_table_with_the_same_qualified_name_in_another_schema_is_excluded() -> None:
    others = (
        replace(table("far.told", oid=2), schema="app"),
        replace(table("told", oid=3), schema="app.far"),
    )
    both = SHOP.model_copy(update={"schemas": ("app", "app.far")})
    assert list(excluded_tables((table("orders"), *others), both)) == ["app.far.told"]
    assert list(excluded_tables((table("orders"), *others), SHOP)) == []


@pytest.mark.parametrize(
    ("name", "stays_out"),
    [
        *(
            (name, False)
            for name in ("a|b", "star*", "plus+", "br[ack]et", "paren(1)", "dol$lar", 'a"b', "漢字")
        ),
        *((name, True) for name in ("a)b", "a(b", "a[b", "a**", "a{b", "back\\slash", "(?x", "[a-", "|*")),
    ],
)
def test_keyless_table_is_excluded_when_its_name_prevents_a_resnapshot(name: str, stays_out: bool) -> None:
    assert [*excluded_tables([table(name)], SHOP)] == [f"app.{name}"] * stays_out
    assert not excluded_tables([replace(table(name), key=("id",))], SHOP)


def test_table_without_a_captured_column_is_excluded() -> None:
    generated = Column("n", "integer", not_null=False, generated=True)
    assert list(excluded_tables([table("made", generated)], SHOP)) == ["app.made"]
    plain = Column("id", "integer", not_null=False, generated=False)
    assert list(excluded_tables([table("made", generated, plain)], SHOP)) == []


def stamped(
    columns: dict[str, list[object]], partitions: tuple[int, ...] = (), oid: int = 1, **more: Any
) -> RowsStamp:
    return RowsStamp(oid=oid, columns=columns, partitions=partitions, **more)


ID = {"1": ["id", 23, -1, False]}


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        (stamped(ID), stamped(ID), ""),
        (stamped(ID), stamped({**ID, "2": ["a", 25, -1, False]}), ""),
        (stamped(ID), stamped({**ID, "2": ["a", 25, -1, True]}), "the new column a has a default"),
        (stamped(ID), stamped({"1": ["id", 20, -1, False]}), "the column id has another type"),
        (stamped(ID), stamped({"1": ["key", 23, -1, False]}), "the column id is named key now"),
        (stamped(ID), stamped({"1": ["id", 23, -1, True]}), ""),  # a default that rows to come have
        (stamped(ID, (7, 8)), stamped(ID, (7,)), "a partition was detached or dropped"),
        (stamped(ID, (7,)), stamped(ID, (7, 8)), "a partition with rows was attached"),
        (stamped(ID, (7,)), stamped(ID, (7, 9)), ""),  # an empty one
        (stamped(ID, (7,), files={"7": 1}), stamped(ID, (7,), files={"7": 1, "9": 2}), ""),
        (
            stamped(ID, (7,), files={"7": 1}),
            stamped(ID, (7,), files={"7": 2}),
            "a partition was truncated, rewritten or attached again",
        ),
        (
            stamped(ID, generated=(2,)),
            stamped({**ID, "2": ["a", 25, -1, False]}),
            "the column a is not generated any more",
        ),
        (stamped(ID, labels={"5": "new"}), stamped(ID, labels={"5": "new", "6": "old"}), ""),
        (
            stamped(ID, labels={"5": "new", "6": "old"}),
            stamped(ID, labels={"5": "newer", "6": "old"}),
            "a value of an enumeration has another name, or a composite type other attributes",
        ),
        (stamped(ID, file=1, toast=5), stamped(ID, file=2, toast=5), ""),  # VACUUM FULL, TRUNCATE
        (stamped(ID, file=1, toast=5), stamped(ID, file=2, toast=6), "ALTER TABLE has rewritten it"),
        (stamped(ID, file=1, toast=0), stamped(ID, file=2, toast=0, is_truncated=True), ""),
        (stamped(ID, file=1, toast=0), stamped(ID, file=2, toast=0), "ALTER TABLE has rewritten it"),
        (stamped(ID, file=1, toast=0), stamped(ID, file=1, toast=0), ""),
        (
            stamped(ID, file=1, toast=5),
            stamped(ID, file=2, toast=0, is_truncated=True),
            "ALTER TABLE has rewritten it",
        ),
        (
            stamped(ID, file=1, toast=5),
            stamped({**ID, "2": ["a", 25, -1, False]}, file=2, toast=5),
            "a new column of it may have had a default",
        ),
        (
            stamped(ID, file=1, toast=5),
            stamped({**ID, "2": ["a", 25, -1, False]}, file=2, toast=5, is_truncated=True),
            "",
        ),
        (stamped(ID, published="1/7"), stamped(ID, published="1/8"), "its publication was changed"),
        (stamped(ID, dropped=(2,)), stamped(ID, dropped=(2, 3)), "a column of it came and went"),
        (stamped({**ID, "2": ["a", 25, -1, False]}, dropped=()), stamped(ID, dropped=(2,)), ""),
        (stamped(ID, generated=(2,), dropped=()), stamped(ID, dropped=(2,)), ""),
        (stamped(ID, key="1"), stamped(ID, key="2"), "its key has changed"),
        (stamped(ID, key=""), stamped(ID, key="1"), "its key has changed"),
        (
            stamped({**ID, "2": ["a", 25, -1, False]}),
            stamped({**ID, "3": ["a", 25, -1, False]}),
            "the column a was replaced by a new one of the same name",
        ),
        (
            stamped(ID).after(stamped({**ID, "2": ["a", 25, -1, False]})),
            stamped({**ID, "3": ["a", 25, -1, False]}),
            "the column a was replaced by a new one of the same name",
        ),
        (stamped(ID, labels={"5": "new"}), stamped(ID), ""),  # no column has it any more
        (None, stamped(ID, oid=8), "it is new here and has rows"),
        (None, stamped(ID, oid=9), ""),
        (stamped(ID, oid=3), stamped(ID, oid=8), "it is new here and has rows"),
    ],
)
def test_table_is_resnapshotted_when_its_rows_changed_without_change_events(
    before: RowsStamp | None, now: RowsStamp, why: str
) -> None:
    assert why_again(before, now, lambda oid: oid == 8) == why


def test_the_sql_for_a_dba_quotes_and_publishes_no_other_tables() -> None:
    printed = statements("shop", SHOP, """user='we"ird'""")
    assert "ALL TABLES;" not in printed
    assert 'FOR TABLES IN SCHEMA "app", "it\'s, a"' in printed
    assert 'CREATE ROLE "we""ird" LOGIN REPLICATION' in printed
    assert "PASSWORD 'choose-one'" in printed
    required, optional = printed.split("-- OPTIONAL")
    assert required.index("restart it, then run this again") < required.index("CREATE PUBLICATION")
    assert "max_slot_wal_keep_size = '8192MB'" in optional
    assert "TRIGGER" not in printed


def test_kafka_connect_reads_a_password_from_its_environment_or_from_a_folder(tmp_path: Path) -> None:
    source_state = SourceState(lsn="0/0", tables_lsn="0/0")
    for secrets, place in ((None, "env"), (tmp_path, f"directory:{tmp_path}")):
        rendering = Rendering(brokers=Brokers("kafka:9092", KafkaSecurity()), topics=TOPICS, secrets=secrets)
        config = rendering.config("shop", SHOP, {"password": "s3cret"}, source_state)
        assert config["database.password"] == f"${{{place}:ONRAMP_SOURCE_SHOP_PASSWORD}}"
        assert "s3cret" not in config.values()


def _python(java: str) -> str:
    """Return Java's regular expression as Python's."""
    return re.sub(r"\\x\{(\w+)\}", lambda found: rf"\x{int(found[1], 16):02x}", java)


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("orders", "orders"),
        ("a b", "a_b"),
        ("ünï", "_n_"),
        ("日本", "__"),
        ("😀", "__"),
        ("do.t-x", "do.t-x"),
    ],
)
def test_a_topic_has_the_name_that_debezium_gives_it(name: str, topic: str) -> None:
    assert names.topic("shop", "app", name) == f"cdc.shop-app-{topic}"
