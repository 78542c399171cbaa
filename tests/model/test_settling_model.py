"""The writer's protocol, model-checked: the short form.  `make model` explores all of it."""

import pytest

from tests.model.settling_model import CONFIGS, RULES, Config, explore, model_of

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
        "Kafka away",
        "Kafka away, zombie",
        "recovery from a halt",
        "two partitions",
    }
]
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
    "pause_kept": "paused type",
    "acked": "Kafka away, zombie",
    "replay_first": "recovery from a halt",
    "drain_sorted": "recovery from a halt",
    "judged_alone": "two partitions",
    "all_advance": "two partitions",
}


@pytest.mark.parametrize("config", _SMALL, ids=lambda c: c.name)
def test_every_interleaving_of_a_small_configuration_holds(config: Config) -> None:
    _, verdict, trace = explore(model_of(config, RULES.keys()), _LIMIT)

    assert verdict is None, "\n".join([str(verdict), *trace])


@pytest.mark.parametrize(("rule", "name"), _NEEDED.items(), ids=_NEEDED)
def test_without_a_rule_there_is_a_counterexample(rule: str, name: str) -> None:
    config = next(c for c in CONFIGS if c.name == name)

    _, verdict, _ = explore(model_of(config, RULES.keys() - {rule}), _LIMIT)

    assert verdict, f"the model does not need the rule {rule!r} in {name!r}"
    assert not verdict.startswith("UNFINISHED")
