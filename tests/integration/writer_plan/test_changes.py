"""Plans: exact counts of a change's effect on the events in Kafka, without writes."""

import json
import secrets
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg2
import pytest
from confluent_kafka.admin import AdminClient

from services.ops.registry.change import Wish as ApplyWish
from services.ops.registry.change import apply_file, change_to, editing
from services.writer.plan import plan as flow
from services.writer.plan import task
from services.writer.plan.plan import PlanRequest, WrongFileError
from services.writer.plan.report import Report
from services.writer.plan.rules import rules_of
from shared import wire
from shared.kafka_read.history import Window
from shared.registry.entries import Snapshot
from shared.settings import KafkaSettings, RegistrySettings
from shared.trial_program import Exit
from stack.ports import free_port
from tests.fixtures.inline import Reader
from tests.fixtures.writer import delete_records, event, execute, make_topics, rows
from tests.integration.writer_plan.conftest import Ground
from tests.integration.writer_tables.conftest import destination, packet

TABLE = {"destinations": [{"type": "postgres", "schema": "public", "table": "orders"}]}
LOCKS = """
    SELECT l.mode FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE a.application_name = 'onramp-writer plan' AND l.relation = 'public.orders'::regclass
"""
COPIES = "SELECT relname::text FROM pg_class WHERE relpersistence = 't'"
END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
OPEN: dict[str, Any] = {"properties": {"n": {"type": "integer"}}}


def schema(**fields: Any) -> dict[str, Any]:
    return {
        "properties": {"n": {"type": "integer"}, **{name: {"type": kind} for name, kind in fields.items()}}
    }


def places(report: Report, name: str, side: str = "newly_fails") -> dict[str, int]:
    """By code and pointer, how many events."""
    found = report.as_dict()["types"][name]
    listed = found[side]["reasons"]
    return {f"{each['code']} {each['pointer']}": each["events"] for each in listed}


def outcomes(report: Report, name: str, side: str = "new") -> dict[str, int]:
    found = report.as_dict()["types"][name][side]
    return {each: found[each] for each in ("refused", "parked", "landed", "untried") if found[each]}


def test_field_added_to_an_open_schema_reports_earlier_events_of_another_type(ground: Ground) -> None:
    ground.send(
        *(event(f"a{i}", ground.name, n=i) for i in range(30)),
        *(event(f"b{i}", ground.name, n=i, note="hello") for i in range(20)),
        *(event(f"c{i}", ground.name, n=i, note=i) for i in range(7)),
    )
    report = ground.plan({"schema": OPEN}, {"schema": schema(note="string")})
    assert ground.progress.counted == 57
    assert "plan: starting Spark for 57 offsets of 1 partitions\n" in ground.progress.written.getvalue()
    assert report.exit is Exit.FAILED
    assert outcomes(report, ground.name, "old") == {"landed": 57}
    assert outcomes(report, ground.name) == {"refused": 7, "landed": 50}
    assert places(report, ground.name) == {"schema_mismatch /payload/note": 7}
    (told,) = report.as_dict()["schemas"]
    assert (told["kind"], told["pointer"], told["events"]) == ("warning", "/properties/note", 7)
    assert "  7 events newly fail at this field" in list(report.lines())
    assert rows(ground.dsn, "SELECT count(*) FROM pg_tables WHERE schemaname IN ('events', 'onramp')") == [
        (0,)
    ]


def test_five_samples_are_shown_and_no_value_of_them(ground: Ground) -> None:
    events = [event(f"Secret-{i}", ground.name, note=4711 + i, mail="ann@example.com") for i in range(9)]
    ground.send(*events)
    report = ground.plan({"schema": OPEN}, {"schema": schema(note="string"), "personal": ["/mail"]})
    newly = report.as_dict()["types"][ground.name]["newly_fails"]
    assert (newly["events"], len(newly["samples"])) == (9, 5)
    assert newly["samples"][0]["event"]["payload"] == {"note": "9999", "mail": "***"}
    assert newly["samples"][0]["receipt"] == f"{ground.topic}/0@0"
    measured = {"seconds", "events_per_second"}  # 47 is in many a figure
    _, *lines = report.lines()  # the first one is what was measured
    said = json.dumps({k: v for k, v in report.as_dict().items() if k not in measured}) + "\n".join(lines)
    assert "47" not in said.replace(ground.name, "")
    assert "Secret" not in said
    assert "example" not in said


def test_new_table_destination_reports_events_that_land_and_events_that_are_parked(ground: Ground) -> None:
    execute(
        ground.dsn,
        "CREATE TABLE public.orders (_id text PRIMARY KEY, n int CHECK (n < 100), note varchar(3))",
    )
    ground.send(
        *(event(f"good-{i}", ground.name, n=i) for i in range(10)),
        *(event(f"extra-{i}", ground.name, n=i, more=1) for i in range(4)),
        *(event(f"check-{i}", ground.name, n=100 + i) for i in range(3)),
        *(event(f"long-{i}", ground.name, n=i, note="long") for i in range(2)),
        event("text", ground.name, n="many"),
    )
    landing = ground.plan({}, TABLE)
    assert outcomes(landing, ground.name, "old") == {"landed": 20}
    assert outcomes(landing, ground.name) == {"parked": 10, "landed": 10}
    assert places(landing, ground.name) == {
        "unknown_field /payload/more": 4,
        "data_rejected ": 3,
        "data_rejected /payload/note": 2,
        "data_rejected /payload/n": 1,
    }
    states = {r["sqlstate"] for r in landing.as_dict()["types"][ground.name]["newly_fails"]["reasons"]}
    assert states == {"42703", "23514", "22001", "22P02"}
    assert "public.orders" in "\n".join(landing.lines())
    assert "onramp_trial" not in "\n".join(landing.lines())

    lenient = ground.plan(TABLE, {**TABLE, "contract": {"unknown_fields": "discard"}})
    assert (lenient.exit, places(lenient, ground.name, "newly_passes")) == (
        Exit.OK,
        {"unknown_field /payload/more": 4},
    )
    assert rows(ground.dsn, "SELECT count(*) FROM public.orders") == [(0,)]


def test_nothing_is_written_not_even_a_sequence_s_next_value(ground: Ground) -> None:
    execute(
        ground.dsn,
        "CREATE TABLE public.orders (line bigserial, code text DEFAULT 'o' || nextval('orders_line_seq'), "
        "_id text PRIMARY KEY, n int); INSERT INTO public.orders (_id, n) VALUES ('there', 1)",
    )
    ground.send(*(event(f"o{i}", ground.name, n=i) for i in range(50)), event("bad", ground.name, n="x"))
    there = "SELECT last_value, is_called FROM orders_line_seq"
    before = rows(ground.dsn, there), rows(ground.dsn, "TABLE public.orders")
    report = ground.plan({}, TABLE)
    assert outcomes(report, ground.name) == {"parked": 1, "landed": 50}
    assert (rows(ground.dsn, there), rows(ground.dsn, "TABLE public.orders")) == before
    assert rows(ground.dsn, COPIES) == []


def test_the_columns_that_apply_would_add_are_there_for_the_new_rules(ground: Ground) -> None:
    execute(ground.dsn, "CREATE TABLE public.orders (_id text PRIMARY KEY, n int)")
    ground.send(
        *(event(f"a{i}", ground.name, n=i) for i in range(5)),
        *(event(f"b{i}", ground.name, n=i, note="x") for i in range(3)),
    )
    created = {"destinations": [{**TABLE["destinations"][0], "create": True}]}
    report = ground.plan({"schema": OPEN, **TABLE}, {"schema": schema(note="string"), **created})
    assert (report.exit, outcomes(report, ground.name, "old")) == (Exit.OK, {"parked": 3, "landed": 5})
    assert places(report, ground.name, "newly_passes") == {"unknown_field /payload/note": 3}
    (ddl,) = report.as_dict()["ddl"]
    assert ddl["sql"] == 'ALTER TABLE "public"."orders" ADD COLUMN "note" text;'
    assert (ddl["rewrites"], ddl["lock"].split(",")[0]) == (False, "ACCESS EXCLUSIVE on public.orders")
    assert rows(ground.dsn, "SELECT attname::text FROM pg_attribute WHERE attname = 'note'") == []


def test_a_table_that_apply_would_make_is_tried(ground: Ground) -> None:
    ground.send(
        *(event(f"a{i}", ground.name, n=i) for i in range(5)),
        event("wide", ground.name, n=2**63),
        event("none", ground.name, other=1),
    )
    created = {
        "schema": {**OPEN, "required": ["n"]},
        "destinations": [{**TABLE["destinations"][0], "create": True}],
    }
    report = ground.plan({}, created)
    # The gateway checks what the columns of the created table take, too.
    assert outcomes(report, ground.name) == {"refused": 2, "landed": 5}
    assert places(report, ground.name) == {"schema_mismatch /payload/n": 1, "schema_mismatch /payload": 1}
    assert report.as_dict()["ddl"][0]["sql"].startswith('CREATE TABLE "public"."orders"')
    assert rows(ground.dsn, "SELECT to_regclass('public.orders') IS NULL") == [(True,)]

    absent = ground.plan({}, TABLE)
    assert places(absent, ground.name) == {"unknown_table ": 7}


def test_names_that_mean_something_to_sql_are_names(ground: Ground) -> None:
    odd = """od"d 'x' %s {0}; --"""
    ground.send(event("a", ground.name, **{odd: 1}), event("b", ground.name, **{odd: "x"}))
    entry = {
        "schema": {"properties": {odd: {"type": ["integer", "string"], "description": odd}}},
        "destinations": [{"type": "postgres", "schema": "public", "table": odd, "create": True}],
    }
    made = ground.plan({}, entry)
    assert outcomes(made, ground.name) == {"landed": 2}
    quoted = '"' + odd.replace('"', '""') + '"'
    execute(ground.dsn, f"CREATE TABLE public.{quoted} (_id text PRIMARY KEY)")
    entry["schema"] = {"properties": {odd: {"type": "integer", "description": odd}}}
    grown = ground.plan({}, entry)
    assert outcomes(grown, ground.name) == {"refused": 1, "landed": 1}
    assert [each["rewrites"] for each in grown.as_dict()["ddl"]] == [False]
    assert rows(ground.dsn, "SELECT count(*) FROM pg_attribute WHERE attname = %s", odd) == [(0,)]


def test_garbage_unknown_names_and_packets_have_lines_of_their_own(ground: Ground) -> None:
    execute(ground.dsn, "CREATE TABLE public.orders (_id text PRIMARY KEY, n int)")
    other = f"x{ground.name}"
    ground.send(
        b"no json",
        b"\xff\xfe",
        None,
        b"[]",
        event("a", ground.name, n=1),
        event("b", other, n=1),
        packet({"_id": "p", "n": 1}, destination("orders")),
        packet({"_id": "q", "n": "x"}, destination("orders"), destination("t", schema="closed")),
    )
    old: dict[str, Any] = {"event_types": {ground.name: {"schema": OPEN}}}
    report = ground.plan(old, {**old, "unknown_names": "refuse"})
    assert outcomes(report, ground.name) == {"landed": 1}
    assert (outcomes(report, other), outcomes(report, other, "old")) == ({"refused": 1}, {"landed": 1})
    assert places(report, other) == {"unknown_event_name /event_name": 1}
    garbage = f"(no event) on {ground.topic}"
    assert outcomes(report, garbage) == outcomes(report, garbage, "old") == {"parked": 4}
    packets = f"packets on {ground.topic}"
    assert outcomes(report, packets) == {"parked": 1, "landed": 1}
    found = report.as_dict()["types"][packets]["new"]["reasons"]
    assert {r["pointer"] for r in found} == {"/data/n", "/pipeline_context/destinations/*/schema"}
    assert sum(each["read"] for each in report.as_dict()["types"].values()) == report.tally.read == 8


def test_unreachable_database_is_reported_and_the_rest_is_planned(ground: Ground) -> None:
    ground.databases = {"second": f"postgresql://x:secret@127.0.0.1:{free_port()}/x"}
    ground.send(*(event(f"a{i}", ground.name, n=i) for i in range(5)), event("b", ground.name, n="x"))
    both = {"destinations": [{"type": "postgres"}, {"type": "postgres", "vanity": "second"}]}
    report = ground.plan(both, {**both, "schema": OPEN})
    assert report.exit is Exit.FAILED  # it landed in the first
    assert outcomes(report, ground.name) == {"refused": 1, "untried": 5}
    assert report.unchecked()[0].startswith(
        "database second was not surveyed: database second: SQLSTATE none"
    )
    still = ground.plan({}, both)
    assert (still.exit, outcomes(still, ground.name)) == (Exit.UNCHECKED, {"untried": 6})
    assert "secret" not in json.dumps(still.as_dict())


def test_database_that_becomes_unreachable_during_a_plan_is_reported(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(ground.dsn, "CREATE TABLE public.orders (_id text PRIMARY KEY, n int)")
    ground.send(*(event(f"a{i}", ground.name, n=i) for i in range(5)))
    name, usual = urlsplit(ground.dsn).path.lstrip("/"), rules_of

    def go_away(*arguments: Any) -> Any:
        with closing(psycopg2.connect(urlunsplit(urlsplit(ground.dsn)._replace(path="/postgres")))) as conn:
            conn.autocommit = True
            with conn.cursor() as server:
                server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
                server.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
                )
        return usual(*arguments)

    monkeypatch.setattr(flow, "rules_of", go_away)
    report = ground.plan({}, TABLE)
    assert (report.exit, outcomes(report, ground.name)) == (Exit.UNCHECKED, {"untried": 5})
    assert "database onramp: SQLSTATE" in report.unchecked()[0]


def test_locked_table_is_reported_and_the_rest_is_planned(ground: Ground) -> None:
    execute(ground.dsn, "CREATE TABLE public.orders (_id text PRIMARY KEY, n int)")
    ground.send(*(event(f"a{i}", ground.name, n=i) for i in range(5)))
    both = {"destinations": [{"type": "postgres"}, *TABLE["destinations"]]}
    with psycopg2.connect(ground.dsn) as conn, conn.cursor() as owner:
        owner.execute("LOCK TABLE public.orders IN ACCESS EXCLUSIVE MODE")
        report = ground.plan({}, both)
    conn.close()
    assert (report.exit, outcomes(report, ground.name)) == (Exit.UNCHECKED, {"untried": 5})
    assert "55P03" in report.unchecked()[0]
    assert outcomes(report, ground.name, "old") == {"landed": 5}


def test_read_only_role_is_reported_with_its_missing_privileges(ground: Ground) -> None:
    role, at = f"reads_{secrets.token_hex(4)}", urlsplit(ground.dsn)
    name = at.path.lstrip("/")
    execute(
        ground.dsn,
        f"CREATE TABLE public.orders (_id text PRIMARY KEY, n int); CREATE ROLE {role} LOGIN PASSWORD 'x'; "
        f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC",
    )
    ground.send(event("a", ground.name, n=1))
    owner, ground.dsn = ground.dsn, urlunsplit(at._replace(netloc=f"{role}:x@{at.netloc.rpartition('@')[2]}"))
    try:
        lacking = ground.plan(TABLE, TABLE)
        execute(
            owner, f"GRANT TEMPORARY ON DATABASE {name} TO {role}; GRANT SELECT ON public.orders TO {role}"
        )
        enough = ground.plan(TABLE, TABLE)
    finally:
        execute(owner, f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert lacking.exit is Exit.UNCHECKED
    assert f'GRANT TEMPORARY ON DATABASE "{name}" TO "{role}";' in lacking.unchecked()[0]
    assert f'GRANT SELECT ON "public"."orders" TO "{role}";' in lacking.unchecked()[0]
    assert (enough.exit, outcomes(enough, ground.name)) == (Exit.OK, {"landed": 1})
    assert enough.notes() == ["the file does not change the registry in force"]


def test_neither_lock_nor_copy_is_left_while_kafka_is_waited_for(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(ground.dsn, "CREATE TABLE public.orders (_id text PRIMARY KEY, n int)")
    ground.send(*(event(f"a{i}", ground.name, n=i) for i in range(3)))
    held: list[Any] = []
    usual = task._gathered

    def gathered(pieces: Any) -> Iterator[Any]:
        for read in usual(pieces):
            yield read
            held.extend([rows(ground.dsn, LOCKS), rows(ground.dsn, COPIES)])

    monkeypatch.setattr(task, "_gathered", gathered)
    assert outcomes(ground.plan({}, TABLE), ground.name) == {"landed": 3}
    assert held == [[], []]


def test_the_registry_in_kafka_is_what_is_in_force(ground: Ground) -> None:
    ground.send(event("a", ground.name, n=1), event("b", ground.name, n="x"))
    file = ground.file({"schema": OPEN})
    kafka = KafkaSettings(bootstrap=ground.bootstrap)
    request = PlanRequest(file=file, window=Window(last=10))
    client = AdminClient({"bootstrap.servers": ground.bootstrap})
    in_kafka = RegistrySettings(topic=f"onramp.registry.{ground.name}")

    def there() -> tuple[set[str], set[str]]:
        groups = client.list_consumer_groups().result().valid
        return set(client.list_topics(timeout=20).topics), {group.group_id for group in groups}

    def plan() -> Report:
        return flow.try_change(request, ground.settings(), kafka, in_kafka, lambda _: Reader(kafka.brokers))

    before = there()
    empty = plan()
    assert (outcomes(empty, ground.name, "old"), outcomes(empty, ground.name)) == (
        {"landed": 2},
        {"refused": 1, "landed": 1},
    )
    assert there() == before, "neither a topic nor a group is made"
    with editing(kafka, in_kafka) as editor:
        assert apply_file(editor, file, ApplyWish()).state == "applied"
    with editing(kafka, in_kafka) as editor:
        other = Snapshot.model_validate({"event_types": {ground.name: {"schema": OPEN}, "by_hand": {}}})
        change_to(editor, other, ApplyWish())
    same = plan()
    assert outcomes(same, ground.name, "old") == outcomes(same, ground.name) == {"refused": 1, "landed": 1}
    assert same.notes() == [
        "= event_types.by_hand: unchanged, because no file has named it",
        "the file does not change the registry in force",
    ]


def test_constraints_and_triggers_that_a_plan_cannot_try_are_reported(ground: Ground) -> None:
    execute(
        ground.dsn,
        """
        CREATE TABLE public.shops (shop int PRIMARY KEY);
        CREATE TABLE public.orders (_id text PRIMARY KEY, n int REFERENCES public.shops);
        CREATE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER swallow BEFORE INSERT ON public.orders FOR EACH ROW EXECUTE FUNCTION public.swallow();
        ALTER TABLE public.orders ENABLE ROW LEVEL SECURITY;
        """,
    )
    ground.send(event("a", ground.name, n=1))
    report = ground.plan({}, TABLE)
    assert outcomes(report, ground.name) == {"landed": 1}
    assert {each for each in report.as_dict()["not_tried"] if each.startswith("onramp.")} == {
        f"onramp.public.orders: {each}"
        for each in (
            "foreign key orders_n_fkey",
            "trigger swallow",
            "row-level security",
            "keys that are there already: orders_pkey",
        )
    }


def test_the_window_is_what_was_asked_for_as_far_as_kafka_holds_it(ground: Ground) -> None:
    ground.send(*(event(f"a{i}", ground.name, n=i) for i in range(20)))
    assert ground.plan({}, {}, window=Window(last=7)).tally.read == 7
    assert ground.plan({}, {}, window=Window(since=0.0)).tally.read == 20
    nothing = ground.plan({}, {}, window=Window(since=4_000_000_000.0))
    assert (nothing.tally.read, nothing.exit) == (0, Exit.UNCHECKED)
    assert "Kafka holds no event" in nothing.unchecked()[0]
    assert ground.plan({}, {}, events=["order_*"]).tally.read == 20
    assert ground.plan({}, {}, events=["other_*"]).exit is Exit.UNCHECKED
    delete_records(ground.bootstrap, ground.topic, 0, 15)
    for window in (Window(since=0.0), Window(last=10)):
        cut = ground.plan({}, {}, window=window)
        assert (cut.tally.read, cut.exit) == (5, Exit.OK)
        assert any("retention has deleted the beginning" in each for each in cut.notes())
    assert not [n for n in ground.plan({}, {}, window=Window(last=3)).notes() if "retention" in n]


def test_range_deleted_by_kafka_during_a_plan_is_reported_and_the_rest_is_read(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topics(ground.bootstrap, ground.topic)
    ground.send(*(event(f"a{i}", ground.name, n=i) for i in range(20)))
    ground.send(*(event(f"b{i}", ground.name, n=i) for i in range(4)), topic=f"{ground.topic}_other")
    usual = rules_of

    def meanwhile(*arguments: Any) -> Any:
        delete_records(ground.bootstrap, ground.topic, 0, 15)
        return usual(*arguments)

    monkeypatch.setattr(flow, "rules_of", meanwhile)
    report = ground.plan({}, {})
    assert (report.exit, report.tally.read) == (Exit.UNCHECKED, 4)
    (said,) = report.unchecked()
    assert said.startswith(f"unread: {ground.topic}/0")


def test_changes_of_sources_are_no_events(ground: Ground) -> None:
    source = f"src_{ground.name}"
    changes = f"{wire.CHANGE_TOPIC_PREFIX}{source}-public-orders"
    ground.send(event("a", ground.name, n=1))
    ground.send(event("b", ground.name, n=1), topic=changes)
    entry: dict[str, Any] = {"event_types": {ground.name: {}}}
    assert ground.plan(entry, entry).tally.read == 2
    with_source = {
        **entry,
        "sources": {
            source: {"dsn_env": "ONRAMP_SOURCE_SHOP", "schemas": ["public"], "publish": "shop"},
        },
    }
    assert ground.plan(entry, with_source).tally.read == 1


def test_a_file_that_is_no_registry_is_refused(ground: Ground) -> None:
    with pytest.raises(WrongFileError, match="nonsense"):
        ground.plan({}, {"nonsense": 1})
