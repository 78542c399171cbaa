"""The writer's protocol, model-checked: the short form.  `make model` explores all of it."""

import pytest

from tests.model.settling_model import CONFIGS, KNOWN, Config, explore, model_of

_SMALL = [
    c
    for c in CONFIGS
    if c.name
    in {
        "twin task",
        "restored dump",
        "zombie, twin task",
        "registry changes",
        "locked table",
        "paused type, locked table",
        "given up, locked table",
        "given up, paused type, crash",
        "Kafka away",
        "Kafka away, zombie",
        "recovery from a halt",
        "two partitions",
        "trimmed",
        "log cut, same leader",
        "another leader",
        "log cut and refilled",
        "log cut, twin task",
        "log cut, group's offsets lost",
        "log cut, crash, accepted",
        "a database comes in",
        "two names for one database",
        "two Onramps, one database",
        "rows of another Onramp",
        "replay, crash, cancel",
        "replay that waits long",
        "replay, restored dump",
        "refused, crash, cancel",
        "refused, waits long",
        "refused, restored dump",
    }
]
#: What costs seconds, and differs little from a configuration that stays: see the names beside them.
_HEAVY = {
    "twin task",  # zombie, twin task
    "given up, paused type, crash",  # given up, locked table
    "log cut, group's offsets lost",  # log cut, crash, accepted
}
_CONFIGS = [pytest.param(c, id=c.name, marks=pytest.mark.full if c.name in _HEAVY else ()) for c in _SMALL]
_LIMIT = 200_000

#: A rule, and the small configuration that shows what breaks without it.
_NEEDED = {
    "compare": "twin task",
    "settle_first": "zombie, twin task",
    "records_first": "twin task",
    "divert_behind": "restored dump",
    "drain_gap": "restored dump",
    "halt_diverts": "restored dump",
    "plan_pinned": "registry changes",
    "plan_checked": "registry changes",
    "held_in_ledger": "locked table, crash",
    "queue_behind": "locked table",
    "release_once": "locked table, crash",
    "hold_locked": "locked table",
    "dead_lettered_then": "given up, locked table",
    "pause_kept": "paused type",
    "acked": "Kafka away, zombie",
    "refill_first": "recovery from a halt",
    "drain_sorted": "recovery from a halt",
    "judged_alone": "two partitions",
    "all_advance": "two partitions",
    "trim_drained": "trimmed",
    "trim_old": "trimmed",
    "cut_seen": "log cut, same leader",
    "leader_kept": "log cut, crash, accepted",
    "leader_first": "log cut and refilled",
    "ledgers_tell": "log cut, zombie, offsets lost",
    "markers_tell": "log cut, zombie, offsets lost",
    "plans_tell": "log cut, crash, accepted",
    "another_life": "log cut and refilled",
    "life_kept": "log cut, crash, accepted",
    "below_first": "log cut and refilled",
    "group_signed": "log cut, crash, accepted",
    "unknown_halts": "a database goes and comes back",
    "unknown_kept": "a database goes and comes back",
    "sight_at_stand": "a database comes in",
    "owner_checked": "two names for one database",
    "owner_once": "two Onramps, one database",
    "claimed_only": "rows of another Onramp",
    "attempt_new": "replay, crash, cancel",
    "one_commit": "replay, crash, cancel",
    "parked_kept": "replay, crash, cancel",
    "deleted_reopens": "replay, crash, cancel",
    "deleted_unknown": "replay, crash, cancel",
    "old_dropped": "replay, restored dump",
    "staged_again": "replay that waits long",
    "sorted_once": "refused, crash, cancel",
    "decision_followed": "refused, crash, cancel",
    "refused_new": "refused, crash, cancel",
    "sorted_again": "refused, crash, cancel",
    "first_again": "refused, waits long",
    "there_again": "refused, waits long",
    "revived_dropped": "refused, restored dump",
    "cancel_follows": "refused, crash, cancel",
    "cancel_deletes": "refused, crash, cancel",
    "cancel_asks": "refused, crash, cancel",
    "recheck_all": "refused, crash, cancel",
}
#: The rules whose counterexamples `make test` looks for; `make test-full` looks for all.
_ALWAYS = {
    "compare",
    "settle_first",
    "divert_behind",
    "release_once",
    "acked",
    "cut_seen",
    "owner_checked",
    "one_commit",
    "parked_kept",
    "decision_followed",
}
_RULES = [
    pytest.param(rule, name, id=rule, marks=() if rule in _ALWAYS else pytest.mark.full)
    for rule, name in _NEEDED.items()
]


@pytest.mark.parametrize("config", _CONFIGS)
def test_every_interleaving_of_a_small_configuration_holds(config: Config) -> None:
    _, verdict, trace = explore(model_of(config), _LIMIT)

    assert verdict is None, "\n".join([str(verdict), *trace])


def test_the_rules_that_are_always_removed_exist() -> None:
    assert set(_NEEDED) >= _ALWAYS


@pytest.mark.parametrize(("rule", "name"), _RULES)
def test_without_a_rule_there_is_a_counterexample(rule: str, name: str) -> None:
    config = next(c for c in CONFIGS if c.name == name)

    _, verdict, _ = explore(model_of(config, {rule}), _LIMIT)

    assert verdict, f"the model does not need the rule {rule!r} in {name!r}"
    assert not verdict.startswith("UNFINISHED")


def test_without_both_rules_about_unknown_databases_their_events_are_lost() -> None:
    config = next(c for c in CONFIGS if c.name == "a database goes and comes back")

    _, verdict, _ = explore(model_of(config, {"unknown_halts", "unknown_raises"}), _LIMIT)

    assert verdict is not None
    assert "skipped in silence in B" in verdict


@pytest.mark.full
@pytest.mark.parametrize(("name", "verdict", "rule"), [(n, *of) for n, of in KNOWN.items()], ids=KNOWN)
def test_known_violation_is_found_in_the_model_and_prevented_by_its_missing_rule(
    name: str, verdict: str, rule: str
) -> None:
    config = next(c for c in CONFIGS if c.name == name)

    assert explore(model_of(config), _LIMIT)[1] == verdict
    assert explore(model_of(config, besides={rule}), _LIMIT)[1] is None
