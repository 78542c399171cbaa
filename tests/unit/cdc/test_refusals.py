"""A login that a source refuses is not tried each second, and one that may work soon is."""

from contextlib import suppress
from itertools import pairwise

import psycopg2
import pytest

from services.cdc.agent import source_sql
from services.cdc.agent.connect_api import ConnectError, RefusedError
from services.cdc.agent.source_sql import SourceDatabase, SourceError
from services.cdc.health.refusals import Refusals
from tests.unit.cdc.test_reconcile import SOURCE, World

AT = 'connection to server at "shop.example" (192.0.2.1), port 5432 failed: '
REFUSED = 'FATAL:  password authentication failed for user "onramp_shop"\n'


def test_pauses_grow_to_a_limit_and_end_with_a_success() -> None:
    now, tries = 0.0, list[float]()
    refusals = Refusals(lambda error: isinstance(error, ValueError), lambda: now)

    def attempt(what: object, error: Exception | None) -> None:
        with refusals.attempt(what):
            tries.append(now)
            if error:
                raise error

    while now < 200:
        with pytest.raises(ValueError, match="refused"):
            attempt("a", ValueError("refused"))
        now += 1
    assert [int(b - a) for a, b in pairwise(tries)] == [
        1,
        2,
        4,
        8,
        16,
        30,
        30,
        30,
        30,
        30,
    ]
    attempt("b", None)  # something else is attempted at once
    for _ in range(3):
        with pytest.raises(OSError, match="starts"):
            attempt("a", OSError("starts"))
    assert len(tries) == 11 + 4


def test_a_source_that_refuses_the_login_is_not_asked_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = list[str]()
    for text, expected in ((REFUSED, 1), ("FATAL:  the database system is starting up\n", 5)):

        def connect(_: str, text: str = text) -> None:
            attempts.append(text)
            raise psycopg2.OperationalError(AT + text)

        monkeypatch.setattr(source_sql, "_connect", connect)
        database = SourceDatabase("shop", SOURCE, "postgresql://u:secret@shop.example/d")
        for _ in range(5):
            with pytest.raises(SourceError):
                database.inspect()
        assert attempts.count(text) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (AT + REFUSED, 'FATAL: password authentication failed for user "onramp_shop"'),
        (AT + "Connection refused\n\tIs the server running on that host?\n", "Connection refused"),
        (AT + 'FATAL:  database "d" does not exist\n', 'FATAL: database "d" does not exist'),
        ('could not translate host name "cret@shop.example" to address: Unknown\n', "no connection"),
        ('invalid integer value "secret" for connection option "port"', "no connection"),
    ],
)
def test_server_error_is_reported_without_any_part_of_the_dsn(
    text: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(_: str) -> None:
        raise psycopg2.OperationalError(text)

    monkeypatch.setattr(source_sql, "_connect", connect)
    with pytest.raises(SourceError) as raised:
        SourceDatabase("shop", SOURCE, "postgresql://u:secret@shop.example/d").inspect()
    assert told in str(raised.value)
    assert "cret" not in str(raised.value)


def test_a_configuration_that_kafka_connect_refuses_is_not_put_each_second() -> None:
    world = World()
    refused: list[str] = []

    def put(name: str, _: dict[str, str]) -> None:
        refused.append(name)
        raise RefusedError("Kafka Connect answers 400: password authentication failed")

    world.put_config = put  # type: ignore[method-assign]
    for _ in range(3):
        assert "password" in world.see().reason
    assert len(refused) == 1

    def fail(_: str, __: dict[str, str]) -> None:
        refused.append("")
        raise ConnectError("Kafka Connect does not answer")

    other = World()
    other.put_config = fail  # type: ignore[method-assign]
    with suppress(ConnectError):
        for _ in range(3):
            other.see()
    assert len(refused) == 4
