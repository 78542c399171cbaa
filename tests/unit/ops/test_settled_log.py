"""The order of a partition's topic generations, from the records on `onramp.settled`."""

import json
from typing import Any

from services.ops.audit.settled_log import SettledLog


def _log(*entries: dict[str, Any]) -> SettledLog:
    log = SettledLog()
    for entry in entries:
        log.apply(b"line/t/0", json.dumps({"start": 6} | entry).encode())
    assert log.foreign == 0
    return log


def test_generations_follow_each_other_as_the_entries_say() -> None:
    log = _log({"epoch": 1, "life": "a"}, {"epoch": 1, "life": "b", "before": ["a"]})
    assert log.followed("b", 0) == ["t", "a", "b"]
    assert log.followed("a", 0) == ["t", "a"]
    assert (log.followed("t", 0), log.followed("b", 1), log.followed("x", 0)) == (["t"], ["b"], ["x"])


def test_the_last_entry_alone_tells_all_generations_before() -> None:
    assert _log({"epoch": 3, "life": "c", "before": ["a", "b"]}).followed("c", 0) == ["t", "a", "b", "c"]


def test_a_zombies_entry_is_not_the_last() -> None:
    log = _log({"epoch": 2, "life": "a"}, {"epoch": 1, "life": "z"})
    assert (log.followed("a", 0), log.followed("z", 0)) == (["t", "a"], ["z"])


def test_operator_name_with_control_characters_is_replaced_by_a_placeholder() -> None:
    log = SettledLog()
    for n, by in enumerate(["ann", "\x1b[2J"]):
        log.apply(
            f"word/events.x/{n}".encode(), json.dumps({"halt": "h", "how": "accept", "by": by}).encode()
        )
    assert log.answered_by == {("events.x", 0): "ann", ("events.x", 1): "somebody"}


def test_a_retired_database_is_asked_for_no_more_until_it_is_first_seen_again() -> None:
    log = SettledLog()

    def said(key: str, value: dict[str, Any]) -> set[str]:
        log.apply(key.encode(), json.dumps(value).encode())
        return log.retired

    said("baseline/t/0", {"shop": 0, "lake": 3})
    assert said("retire/lake", {"id": "a", "by": "ann", "reason": "sold"}) == set()
    assert said("retired/lake", {"id": "a", "upto": None}) == set()  # it was configured
    assert said("retired/lake", {"id": "b", "upto": {"0": 7}}) == {"lake"}
    assert said("baseline/t/0", {"shop": 0}) == {"lake"}
    assert said("baseline/u/0", {"shop": 0, "lake": 9}) == set()
    assert log.foreign == 0


def test_changes_went_to_each_database_that_any_routes_name_for_their_source() -> None:
    log, expected = SettledLog(), set[str]()
    for digest, database in (("a", "lake"), ("b", "shop")):
        routes = {"default_database": "shop", "sources": [{"name": "erp", "database": database}]}
        log.apply(f"routes/{digest}".encode(), json.dumps(routes).encode())
        expected.add(database)
        assert log.databases_of_changes("cdc.erp-public-t") == expected
    assert log.databases_of_changes("cdc.erp2-public-t") == set()
