"""Rules query declared metrics, have a severity, a test and a runbook."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from services.writer.settings import WriterSettings
from shared import backoff
from shared.errors import (
    BATCH_TOO_COSTLY,
    INTERNAL_ADMIN,
    QUOTA,
    TABLE,
    TOO_MANY_AT_ONCE,
    TOO_MANY_WRONG_KEYS,
    Kind,
)
from stack.prometheus import Prometheus
from tests.unit.conventions.tree import ROOT, report
from tests.unit.deploy.promql import UnknownError, labels_of
from tests.unit.deploy.rules import ALERTS, FILES, KNOWN, RECORDED, TESTS

Rule = dict[str, Any]

RUNBOOKS = (ROOT / "docs/runbooks.md").read_text("utf-8")


def query_faults(rule: Rule) -> Iterator[str]:
    try:
        labels = labels_of(rule["expr"], KNOWN)
    except UnknownError as error:
        yield str(error)
        return
    named = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    if labels is None:
        yield "a number is no alert"
    elif not named <= labels:
        yield f"the annotations name labels that the query lacks: {sorted(named - labels)}"


def annotation_faults(rule: Rule) -> Iterator[str]:
    if not re.fullmatch(r"Onramp[A-Z]\w+", rule["alert"]):
        yield "its name is Onramp and a capital"
    if set(rule["annotations"]) != {"summary", "description", "runbook_url"}:
        yield "its annotations are summary, description and runbook_url"
    elif rule["annotations"]["runbook_url"] != f"docs/runbooks.md#{rule['alert'].lower()}":
        yield f"its runbook is docs/runbooks.md#{rule['alert'].lower()}"
    if rule["labels"]["severity"] not in {"page", "ticket", "none"}:
        yield "its severity is page, ticket or none"


def runbook_faults(rule: Rule) -> Iterator[str]:
    section = f"{RUNBOOKS}\n##".partition(f"\n### {rule['alert']}\n")[2].split("\n##")[0]
    if re.findall(r"^\*\*(Means|Look|Do)\*\*: \S", section, re.MULTILINE) != ["Means", "Look", "Do"]:
        yield "its runbook says what it Means, where to Look and what to Do"


def faults_of_test(rule: Rule) -> Iterator[str]:
    (test,) = (each for file in TESTS.values() for each in file["tests"] if each["name"] == rule["alert"])
    checks = test["promql_expr_test"]
    fires = [bool(check["exp_samples"]) for check in checks]
    if rule["alert"] != "OnrampWatchdog" and (fires[0], any(fires), fires[-1]) != (False, True, False):
        yield "its test begins before it fires and ends when it is resolved"
    if not all(check["expr"].startswith(f'ALERTS{{alertname="{rule["alert"]}"') for check in checks):
        yield "its test asks for this alert alone"


def require_none(faults: Callable[[Rule], Iterator[str]]) -> None:
    offenders = [f"{alert}: {fault}" for alert, rule in ALERTS.items() for fault in faults(rule)]
    assert offenders == [], report(offenders)


def test_alerts_ask_for_what_is_declared_and_name_labels_that_they_have() -> None:
    require_none(query_faults)


def test_alerts_say_whom_they_call_what_happened_and_where_it_is_explained() -> None:
    require_none(annotation_faults)


def test_runbooks_say_what_it_means_how_to_look_and_what_to_do() -> None:
    require_none(runbook_faults)


def test_tests_fire_and_resolve_their_alert_and_begin_before_it() -> None:
    require_none(faults_of_test)


def test_a_faulty_alert_is_noticed() -> None:
    rule = ALERTS["OnrampLag"]
    notes = rule["annotations"]
    wrong = [
        (query_faults, rule | {"expr": "onramp_writer_lags > 1"}),
        (query_faults, rule | {"expr": "1"}),
        (query_faults, rule | {"annotations": notes | {"summary": "{{ $labels.tpoic }}"}}),
        (annotation_faults, rule | {"alert": "Lag"}),
        (annotation_faults, rule | {"annotations": notes | {"runbook_url": "docs/runbooks.md"}}),
        (annotation_faults, rule | {"labels": {"severity": "call"}}),
        (runbook_faults, rule | {"alert": "OnrampUnknown"}),
    ]
    assert [changed for faults, changed in wrong if not list(faults(changed))] == []


def test_symptoms_page_and_causes_do_not() -> None:
    for name, severities in (("symptoms.yml", {"page"}), ("causes.yml", {"ticket", "none"})):
        rules = [rule for group in FILES[name]["groups"] for rule in group["rules"] if "alert" in rule]
        assert {rule["labels"]["severity"] for rule in rules} == severities
    assert list(FILES) == ["symptoms.yml", "causes.yml"]


def test_recording_rule_precedes_its_alert_in_the_same_group() -> None:
    # Groups are evaluated beside one another: an alert of another group would see the ratio of before.
    for file in FILES.values():
        for group in file["groups"]:
            names = [rule.get("record") or rule["alert"] for rule in group["rules"]]
            for at, rule in enumerate(group["rules"]):
                assert {name for name in RECORDED if name in rule["expr"]} <= set(names[:at])


def test_a_database_that_is_out_pages_within_30_seconds_and_is_quiet_within_60_of_its_return() -> None:
    # What promtool and a live test leave open: how the parts of the time add up, on any machine.
    compose = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))["global"]
    up = inspect.signature(Prometheus).parameters["seconds"].default
    rule = ALERTS["OnrampDatabaseOut"]
    for scrape, evaluation in (
        (seconds(compose["scrape_interval"]), seconds(compose["evaluation_interval"])),
        (up, up),
    ):
        noticed = WriterSettings.model_fields[
            "metrics_seconds"
        ].default  # an idle writer looks with each reading
        assert noticed + scrape + evaluation + seconds(rule["for"]) <= 30
        assert backoff.MAX_SECONDS + scrape + evaluation <= 60
    assert "keep_firing_for" not in rule


def seconds(text: str) -> int:
    (number,) = re.fullmatch(r"(\d+)s", text).groups()  # type: ignore[union-attr]
    return int(number)


def test_outcomes_not_caused_by_the_sender_are_excluded_from_the_rejected_share() -> None:
    ours = {fault.code for fault in TABLE.values() if fault.kind is Kind.WAITING and fault.status is not None}
    # The gateway delays senders above a quota or a limit of cost; other services answer the other codes.
    expected = {"accepted", *ours} - {
        BATCH_TOO_COSTLY.code,
        QUOTA.code,
        INTERNAL_ADMIN.code,
        TOO_MANY_AT_ONCE.code,
        TOO_MANY_WRONG_KEYS.code,
    }
    for query in (
        RECORDED["key:onramp_ingest_rejected:ratio_rate10m"],
        ALERTS["OnrampRejectedShare"]["expr"],
    ):
        (left_out,) = re.findall(r'outcome!~"([^"]+)"', query)
        assert set(left_out.split("|")) == expected


def test_rules_runbooks_and_tests_are_of_the_same_alerts() -> None:
    assert re.findall(r"^### (\w+)$", RUNBOOKS, re.MULTILINE) == list(ALERTS)
    for name, file in FILES.items():
        alerts = [r["alert"] for group in file["groups"] for r in group["rules"] if "alert" in r]
        assert [test["name"] for test in TESTS[name]["tests"]] == alerts


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("onramp_writer_lags", "declares"),
        ("onramp_writer_events", "declares"),  # a counter ends in _total
        ('onramp_writer_holds{nmae="a"}', "nmae"),
        ("sum by (tpoic) (onramp_writer_lag_events)", "tpoic"),
        ("rate(onramp_writer_lag_events[5m])", "gauge"),
        ("onramp_writer_batches_total > 1", "counter"),
        ("sum by (topic) (onramp_writer_lag_events) / sum(onramp_writer_lag_events)", "other labels"),
    ],
)
def test_a_misspelt_query_is_seen(query: str, said: str) -> None:
    with pytest.raises(UnknownError, match=said):
        labels_of(query, KNOWN)
