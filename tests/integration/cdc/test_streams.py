"""Generated streams of changes: the public table always equals a model of the source."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fixtures.changes import Stream
from tests.fixtures.writer import Bench
from tests.integration.cdc.merge_bench import Desk
from tests.integration.cdc.row_model import Plain

CLEAN = """
    DROP SCHEMA IF EXISTS shop CASCADE; DROP TABLE IF EXISTS landing.shop__app__orders;
    TRUNCATE onramp.table_settings, onramp.source_tables, onramp.ledger, onramp.totals
"""


@pytest.fixture(scope="module")
def bench(own_database: object) -> Bench:
    return Bench(own_database.dsn).migrate().prepare()  # type: ignore[attr-defined]


@given(
    seed=st.integers(0, 2**32),
    keyed=st.booleans(),
    transactions=st.integers(1, 12),
    most=st.sampled_from([1, 2, 3, 7, 1000]),
    kills=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_public_table_is_what_the_source_has(
    bench: Bench, seed: int, transactions: int, most: int, kills: float, *, keyed: bool
) -> None:
    bench.execute(CLEAN)
    rng = random.Random(seed)
    desk = Desk(
        bench, columns={"id": "integer", "note": "text", "n": "integer"}, key=["id"] if keyed else None
    )
    desk.prepare().tell()
    plain = Plain(keyed, rng, stream=Stream(at=100_000))
    sent = 0
    for _ in range(transactions):
        plain.transaction()
        if rng.random() < kills and plain.stream.values:
            plain.killed()
        if rng.random() < 0.6:  # what landed up to now is merged, wherever that cuts the stream
            end = rng.randint(sent, len(plain.stream.values))
            if end > sent:
                desk.land(plain.stream.values[sent:end]).merge(most)
            sent = end
    if plain.stream.values[sent:]:
        desk.land(plain.stream.values[sent:])
    desk.merge(most)
    assert desk.rows() == plain.expected()
    with desk.connected() as conn:  # a second merge of nothing changes nothing
        desk.merger(conn).run(conn)
    assert desk.rows() == plain.expected()
