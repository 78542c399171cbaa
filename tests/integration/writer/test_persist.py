"""PERSIST: each row has exactly one outcome, and one bad row harms only itself."""

import orjson
import pytest

from shared.kafka_read.offsets import Partition
from tests.fixtures.writer import Bench, arrivals, envelope, event

OTHER = Partition("events.order_placed", 1)
BAD = b'{"a":"\\u0000"}'


def _bad(event_id: str) -> bytes:
    return envelope(event_id, payload=BAD)


def _ids(bench: Bench) -> list[str]:
    return [row[0] for row in bench.rows("SELECT _id FROM events.order_placed ORDER BY _offset")]


def _parked(bench: Bench) -> dict[int, dict[str, object]]:
    return dict(bench.rows('SELECT "offset", error FROM onramp.outbox ORDER BY "offset"'))


def _remarks(bench: Bench) -> dict[str, int]:
    return dict(bench.rows("SELECT remark, sum(count)::int FROM onramp.warnings GROUP BY 1"))


def _grant(bench: Bench, right: str, to: Bench) -> None:
    """Grant `right`, and what the writer needs for its own tables."""
    for each in ("USAGE ON SCHEMA onramp", "ALL ON ALL TABLES IN SCHEMA onramp", right):
        bench.execute(f"GRANT {each} TO {to.user}")


# --- duplicates -------------------------------------------------------------------------------


def test_a_producers_retry_in_one_batch_lands_once_and_the_first_stands(bench: Bench) -> None:
    bench.settle(arrivals([event("a", n=1), event("b"), event("a", n=1)]))
    assert bench.rows("SELECT _id, _offset::int, payload FROM events.order_placed ORDER BY 2") == [
        ("a", 0, {"n": 1}),
        ("b", 1, {}),
    ]
    assert bench.totals() == {"landed": 2, "duplicate": 1}


def test_a_producers_retry_in_a_later_batch_lands_nothing(bench: Bench) -> None:
    bench.settle(arrivals([event("a", n=1)]))
    bench.settle(arrivals([event("b"), event("a", n=1), event("c")], first=1))
    assert bench.rows("SELECT _id, payload FROM events.order_placed WHERE _id = 'a'") == [("a", {"n": 1})]
    assert (_ids(bench), bench.totals()) == (["a", "b", "c"], {"landed": 3, "duplicate": 1})


def test_duplicates_are_counted_for_the_partition_that_brought_them(bench: Bench) -> None:
    bench.claim([OTHER])
    bench.settle(arrivals([event("a"), event("b")]))
    bench.settle(arrivals([event("a"), event("c"), event("c")], partition=OTHER))
    assert bench.rows(
        "SELECT partition, outcome, events::int FROM onramp.totals ORDER BY partition, outcome"
    ) == [(0, "landed", 2), (1, "duplicate", 2), (1, "landed", 1)]


def test_after_many_clashes_every_row_still_lands_once(bench: Bench) -> None:
    for batch in range(25):  # past the twenty that are asked for before they are copied
        bench.settle(arrivals([event(f"a-{batch // 2}"), event(f"b-{batch}")], first=2 * batch))
    assert (len(_ids(bench)), bench.totals()) == (38, {"landed": 38, "duplicate": 12})


def test_an_id_with_another_body_costs_the_next_batches_no_copy(bench: Bench, statements: list[str]) -> None:
    bench.settle(arrivals([event("a", n=1)]))
    bench.settle(arrivals([event("a", n=2), event("b")], first=1))
    assert {e["code"] for e in _parked(bench).values()} == {"id_reuse"}
    statements.clear()
    bench.settle(arrivals([event("c")], first=3))
    assert [s for s in statements if s.startswith('COPY "events"."order_placed"')]


def test_a_bad_event_does_not_take_a_good_one_of_its_id_with_it(bench: Bench) -> None:
    bench.settle(arrivals([_bad("a"), event("a", n=2)]))
    assert (_ids(bench), list(_parked(bench))) == (["a"], [0])
    assert bench.totals() == {"landed": 1, "parked": 1}


# --- bad rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1, 4_999, 9_999])
def test_bad_row_among_ten_thousand_takes_tens_of_statements_and_the_other_rows_land(
    bench: Bench, statements: list[str], at: int
) -> None:
    values = [event(f"order-{i}") for i in range(10_000)]
    values[at] = _bad("bad")
    bench.settle(arrivals(values))
    assert (len(_ids(bench)), list(_parked(bench))) == (9_999, [at])
    assert bench.totals() == {"landed": 9_999, "parked": 1}
    assert len(statements) < 130, len(statements)


def test_bad_row_among_ten_thousand_takes_at_most_forty_statements(
    bench: Bench, statements: list[str]
) -> None:
    values = [event(f"order-{i}") for i in range(10_000)]
    values[6_789] = _bad("bad")
    bench.settle(arrivals(values))
    assert len(statements) <= 40, len(statements)  # and ten for the transaction around it


def test_all_bad_is_no_quadratic_search(bench: Bench, statements: list[str]) -> None:
    n = 1_000
    bench.settle(arrivals([_bad(f"bad-{i}") for i in range(n)]))
    assert (len(_parked(bench)), bench.ledger(), bench.totals()) == (n, n, {"parked": n})
    assert len(statements) < 10 * n, len(statements)


def test_missing_privilege_parks_all_rows_without_a_row_by_row_search(
    bench: Bench, limited: Bench, statements: list[str]
) -> None:
    bench.settle(arrivals([event("first")]))
    _grant(bench, "USAGE, CREATE ON SCHEMA events", limited)
    _grant(bench, "SELECT ON events.order_placed", limited)
    statements.clear()
    limited.settle(arrivals([event(f"order-{i}") for i in range(200)], first=1))
    assert {e["code"] for e in _parked(bench).values()} == {"no_permission"}
    assert len(_parked(bench)) == 200
    assert len(statements) < 230, len(statements)


def test_a_role_that_may_only_insert_lands_in_a_table_that_is_there(bench: Bench, limited: Bench) -> None:
    bench.settle(arrivals([event("a")]))
    _grant(bench, "USAGE ON SCHEMA events", limited)
    _grant(bench, "SELECT, INSERT ON events.order_placed", limited)
    limited.settle(arrivals([event("b")], first=1))
    assert (_ids(bench), _parked(bench)) == (["a", "b"], {})


@pytest.fixture
def secured(bench: Bench, limited: Bench) -> Bench:
    """The landing table under row-level security: its role may insert what the policies say."""
    bench.settle(arrivals([event("first")]))
    bench.execute(
        "ALTER TABLE events.order_placed ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY seen ON events.order_placed FOR SELECT USING (true);"
        "CREATE POLICY open ON events.order_placed FOR INSERT WITH CHECK ((payload ->> 'gate')::int < 5)"
    )
    _grant(bench, "USAGE ON SCHEMA events", limited)
    _grant(bench, "SELECT, INSERT ON events.order_placed", limited)
    return limited


def test_a_landing_table_under_row_level_security_takes_inserts(bench: Bench, secured: Bench) -> None:
    for first, new in ((1, "ab"), (4, "cd")):  # COPY FROM is refused there, each time
        values = [event(new[0], gate=1), event("a", gate=1), event(new[1], gate=2)]
        assert secured.settle(arrivals(values, first=first)).failures == ()
    assert _ids(bench) == ["first", "a", "b", "c", "d"]
    assert bench.totals() == {"landed": 5, "duplicate": 2}


def test_row_denied_by_a_policy_is_parked_and_adjacent_rows_land(bench: Bench, secured: Bench) -> None:
    values = [event("a", gate=1), event("order-7", gate=777), event("b", gate=2)]
    assert secured.settle(arrivals(values, first=1)).failures == ()
    assert _ids(bench) == ["first", "a", "b"]
    assert bench.totals() == {"landed": 3, "parked": 1}
    (error,) = _parked(bench).values()
    assert error["code"] == "no_permission"
    assert "42501" in str(error["detail"])
    assert "777" not in str(error)


def test_a_role_that_may_not_see_the_rows_parks_and_loses_nothing(bench: Bench, secured: Bench) -> None:
    """ON CONFLICT must see what it may clash with: Postgres denies it, and no row is taken for a repeat."""
    bench.execute("ALTER POLICY seen ON events.order_placed USING (false)")
    assert secured.settle(arrivals([event("a", gate=1), event("b", gate=2)], first=1)).failures == ()
    assert (_ids(bench), bench.totals()) == (["first"], {"landed": 1, "parked": 2})
    assert {e["code"] for e in _parked(bench).values()} == {"no_permission"}


def test_bad_rows_at_both_ends_and_in_between_harm_only_themselves(bench: Bench) -> None:
    values = [_bad(f"bad-{i}") if i in {0, 1, 30, 63} else event(f"order-{i:02}") for i in range(64)]
    bench.settle(arrivals(values))
    assert (len(_ids(bench)), list(_parked(bench))) == (60, [0, 1, 30, 63])


def test_bad_rows_and_duplicates_in_one_batch_are_distinguished(bench: Bench) -> None:
    bench.settle(arrivals([event("a")]))
    bench.settle(arrivals([event("a"), _bad("b"), event("c"), event("c"), event("d")], first=1))
    assert (_ids(bench), list(_parked(bench))) == (["a", "c", "d"], [2])
    assert bench.totals() == {"landed": 3, "duplicate": 2, "parked": 1}


def test_a_parked_event_keeps_its_bytes_and_its_reason_names_everything_but_the_value(bench: Bench) -> None:
    value = envelope("a", payload=b'{"card": "4111-1111", "a":"\\u0000"}')
    bench.settle(arrivals([event("before"), value]))
    ((offset, kept, destination, error),) = bench.rows(
        'SELECT "offset", value, destination, error FROM onramp.outbox'
    )
    assert (offset, bytes(kept)) == (1, value)
    assert destination.endswith("events.order_placed")
    assert (error["code"], error["step"], error["kind"]) == ("data_rejected", "persist", "parked")
    assert "22P05" in error["detail"]
    assert error["fix"]
    assert "4111" not in orjson.dumps(error).decode()


# --- values -----------------------------------------------------------------------------------

AWKWARD = [
    "\\.",
    "\\N",
    "",
    " ",
    "a\tb",
    "a\nb",
    "a\r\nb",
    "\\",
    "\\\\",
    '"',
    "''",
    "\x01\x1f\x7f",
    "é€😀",
    "\u2028",
]


@pytest.mark.parametrize("text", AWKWARD)
def test_text_lands_byte_for_byte(bench: Bench, text: str) -> None:
    document = {"text": text, "list": [text], text: 1}
    bench.settle(arrivals([envelope(payload=orjson.dumps(document))]))
    assert bench.rows("SELECT payload, payload->>'text' FROM events.order_placed") == [(document, text)]


def test_awkward_text_lands_byte_for_byte_on_the_way_round_too(bench: Bench) -> None:
    values = [event(f"order-{i}", text=text) for i, text in enumerate(AWKWARD)]
    bench.settle(arrivals([event("again")]))
    bench.settle(arrivals([event("again"), *values], first=1))
    texts = bench.rows("SELECT payload->>'text' FROM events.order_placed ORDER BY _offset")
    assert [text for (text,) in texts][1:] == AWKWARD


@pytest.mark.parametrize("version", ["1\\2", '1"2', "é€😀", "\u2028", "\\."])
def test_a_version_lands_byte_for_byte(bench: Bench, version: str) -> None:
    bench.settle(arrivals([envelope(version=version)]))
    assert bench.rows("SELECT _version FROM events.order_placed") == [(version,)]


@pytest.mark.parametrize(
    ("value", "state"),
    [
        (envelope(payload=BAD), "22P05"),
        (envelope(payload=b'{"\\u0000":1}'), "22P05"),
    ],
)
def test_value_that_postgres_cannot_store_is_parked_and_adjacent_events_land(
    bench: Bench, value: bytes, state: str
) -> None:
    bench.settle(arrivals([event("before"), value, event("after")]))
    assert _ids(bench) == ["before", "after"]
    (error,) = _parked(bench).values()
    assert state in str(error["detail"])


def test_an_index_row_that_is_too_large_is_parked(bench: Bench) -> None:
    bench.settle(arrivals([event("before")]))
    bench.execute("CREATE INDEX ON events.order_placed ((payload->>'text'))")
    noise = "".join(chr(0x4E00 + (i * i * 7919) % 20_000) for i in range(7_000))
    bench.settle(arrivals([event("large", text=noise), event("after")], first=1))
    assert (_ids(bench), list(_parked(bench))) == (["before", "after"], [1])
    assert "54000" in str(_parked(bench)[1]["detail"])


# --- tables that their owners changed ---------------------------------------------------------


def test_a_clash_on_another_unique_index_is_parked_and_never_a_silent_drop(bench: Bench) -> None:
    bench.settle(arrivals([event("a", order=1)]))
    bench.execute("CREATE UNIQUE INDEX ON events.order_placed ((payload->>'order'))")
    bench.settle(arrivals([event("b", order=1), event("c", order=2), event("a", order=1)], first=1))
    assert (_ids(bench), list(_parked(bench))) == (["a", "c"], [1])
    assert "23505" in str(_parked(bench)[1]["detail"])
    assert bench.totals() == {"landed": 2, "duplicate": 1, "parked": 1}


def test_a_check_that_fails_is_parked_with_the_constraints_name(bench: Bench) -> None:
    bench.settle(arrivals([event("a")]))
    bench.execute(
        "ALTER TABLE events.order_placed ADD CONSTRAINT no_refund CHECK (payload->>'refund' IS NULL)"
    )
    bench.settle(arrivals([event("b", refund=1), event("c")], first=1))
    assert (_ids(bench), list(_parked(bench))) == (["a", "c"], [1])
    assert "23514" in str(_parked(bench)[1]["detail"])
    assert "no_refund" in str(_parked(bench)[1]["detail"])


def test_a_deferred_constraint_is_checked_before_the_ledger_advances(bench: Bench) -> None:
    bench.settle(arrivals([event("a", shop="1")]))
    bench.execute(
        "CREATE TABLE events.shops (id text PRIMARY KEY); INSERT INTO events.shops VALUES ('1');"
        "ALTER TABLE events.order_placed ADD COLUMN shop text GENERATED ALWAYS AS (payload->>'shop') STORED "
        "REFERENCES events.shops DEFERRABLE INITIALLY DEFERRED"
    )
    bench.settle(arrivals([event("b", shop="2"), event("c", shop="1")], first=1))
    assert (_ids(bench), list(_parked(bench))) == (["a", "c"], [1])


def test_row_discarded_by_a_trigger_is_detected_by_the_row_count_and_parked(bench: Bench) -> None:
    bench.settle(arrivals([event("a")]))
    bench.execute(
        "CREATE FUNCTION events.swallow() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF NEW._id = 'b' THEN RETURN NULL; END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER swallow BEFORE INSERT ON events.order_placed "
        "FOR EACH ROW EXECUTE FUNCTION events.swallow()"
    )
    bench.settle(arrivals([event("b"), event("c")], first=1))
    assert (_ids(bench), list(_parked(bench))) == (["a", "c"], [1])
    assert bench.totals() == {"landed": 2, "parked": 1}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("shop text GENERATED ALWAYS AS (payload->>'shop') STORED", "x"),
        ("shop text NOT NULL DEFAULT 'y'", "y"),
    ],
)
def test_columns_that_an_owner_added_survive_a_clash(bench: Bench, column: str, value: str) -> None:
    bench.settle(arrivals([event("a", shop="x")]))
    bench.execute(f"ALTER TABLE events.order_placed ADD COLUMN {column}")
    bench.settle(arrivals([event("a", shop="x"), event("b", shop="x")], first=1))
    assert bench.rows("SELECT _id, shop FROM events.order_placed ORDER BY 1") == [("a", value), ("b", value)]
    assert _parked(bench) == {}


def test_landing_table_without_the_key_its_owner_dropped_takes_rows_and_is_reported(bench: Bench) -> None:
    bench.settle(arrivals([event("a")]))
    bench.execute("ALTER TABLE events.order_placed DROP CONSTRAINT order_placed_pkey")
    bench.settle(arrivals([event("a"), _bad("b"), event("c")], first=1))
    assert (_ids(bench), list(_parked(bench))) == (["a", "a", "c"], [2]), "no key, so no repeat is known"
    assert "22P05" in str(_parked(bench)[2]["detail"])
    assert _remarks(bench) == {"unkeyed": 2}


def test_a_landing_tables_key_that_is_put_back_tells_repeats_again(bench: Bench) -> None:
    bench.settle(arrivals([event("a")]))
    bench.execute("ALTER TABLE events.order_placed DROP CONSTRAINT order_placed_pkey")
    bench.settle(arrivals([_bad("b"), event("c")], first=1))
    bench.execute("ALTER TABLE events.order_placed ADD PRIMARY KEY (_id)")
    bench.settle(arrivals([event("a"), event("d")], first=3))
    bench.settle(arrivals([event("e"), event("d")], first=5))
    assert _ids(bench) == ["a", "c", "d", "e"]
    assert bench.totals() == {"landed": 4, "duplicate": 2, "parked": 1}
    assert _remarks(bench) == {"unkeyed": 1}


def test_a_landing_table_that_was_dropped_is_no_fault_of_the_events(bench: Bench) -> None:
    bench.settle(arrivals([event("a")]))
    bench.execute("DROP TABLE events.order_placed")
    bench.settle(arrivals([event("b")], first=1))
    if bench.ledger() == 1:  # it may wait and be tried again
        bench.settle(arrivals([event("b")], first=1))
    assert _parked(bench) == {}
    assert _ids(bench) == ["b"]


def test_outage_met_while_isolating_bad_rows_makes_events_wait_and_parks_no_event(bench: Bench) -> None:
    bench.settle(arrivals([event("order-0")]))
    bench.execute(
        "CREATE FUNCTION public.fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW._id = 'full' THEN RAISE USING ERRCODE = '53100'; END IF; RETURN NEW; END $$; "
        "CREATE TRIGGER fill BEFORE INSERT ON events.order_placed FOR EACH ROW EXECUTE FUNCTION public.fill()"
    )
    values = [envelope("bad", payload=BAD), event("full"), event("order-1")]
    bench.settle(arrivals(values, first=1))
    assert (_parked(bench), bench.totals()) == ({}, {"landed": 1, "waiting": 3})
