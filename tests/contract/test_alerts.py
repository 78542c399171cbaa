"""Prometheus' own promtool runs the rules' tests, and each test needs its rule's every number.

A rule with a limit that is a fifth off, with another patience or severity must make its test red: else the
test would pass whatever the rule said.
"""

import copy
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stack.prometheus import Programs
from tests.unit.deploy.rules import ALERTS, FILES, RULES, TESTS
from tests.unit.house.tree import ROOT

Rule = dict[str, Any]
#: A number that something is compared with, or by which a rate is multiplied before it is.
LIMIT = re.compile(r"(?<=[<>*] )\d+(?:\.\d+)?|(?<=== )\d+(?:\.\d+)?")
PATIENCE = re.compile(r"\d+")
#: The fast one where there is one: hundreds of files are written.
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def promtool(programs: Programs, *arguments: str | Path) -> str:
    command = [str(programs.promtool), *map(str, arguments)]
    answer = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600
    )
    return answer.stdout


def test_the_rules_are_rules(programs: Programs) -> None:
    said = promtool(programs, "check", "rules", *sorted(RULES.glob("*.yml")))
    assert (said.count("SUCCESS"), "FAILED" in said) == (len(FILES), False), said


def test_the_configuration_of_compose_is_one(programs: Programs) -> None:
    config = ROOT / "deploy/prometheus/prometheus.yml"
    said = promtool(programs, "check", "config", "--syntax-only", config)
    assert "SUCCESS" in said, said
    assert "FAILED" not in said, said


def test_each_rule_passes_its_test(programs: Programs, tmp_path: Path) -> None:
    """With the rule alone: all rules beside each test take ten times as long."""
    files = [write(tmp_path, alert, alert, rule) for alert, rule in ALERTS.items()]
    said = promtool(programs, "test", "rules", *files)
    assert (said.count("SUCCESS"), "FAILED" in said) == (len(ALERTS), False), said


@pytest.mark.full
def test_the_rules_tests_pass(programs: Programs) -> None:
    said = promtool(programs, "test", "rules", *sorted((RULES.parent / "tests").glob("*.yml")))
    assert (said.count("SUCCESS"), "FAILED" in said) == (len(TESTS), False), said


@pytest.mark.full
def test_a_changed_rule_makes_its_test_red(programs: Programs, tmp_path: Path) -> None:
    as_they_are, changed = list[Path](), list[Path]()
    for alert, rule in ALERTS.items():
        (folder := tmp_path / alert).mkdir()
        as_they_are.append(write(folder, "as-it-is", alert, rule))
        others = [write(folder, name, alert, other) for name, other in mutants(rule)]
        assert others, alert
        changed += others
    said = promtool(programs, "test", "rules", *as_they_are, *changed)
    results = dict(re.findall(r"Unit Testing: +(\S+)\n +(SUCCESS|FAILED)", said))
    assert len(results) == len(as_they_are) + len(changed), said
    assert [file for file in as_they_are if results[str(file)] != "SUCCESS"] == []
    assert [file for file in changed if results[str(file)] != "FAILED"] == []


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    query = rule["expr"]
    for n, found in enumerate(LIMIT.finditer(query)):
        for name, limit in (("more", more(float(found[0]))), ("less", less(float(found[0])))):
            yield f"limit-{n}-{name}", rule | {"expr": query[: found.start()] + limit + query[found.end() :]}
    if "for" in rule:
        number = int(PATIENCE.findall(rule["for"])[0])
        for name, value in (("longer", number * 2), ("none", 0)):
            yield f"for-{name}", rule | {"for": PATIENCE.sub(str(value), rule["for"])}
    yield "severity", rule | {"labels": {"severity": "another"}}
    yield "never", rule | {"expr": f"({query}) and on () vector(1) > 2"}


def more(limit: float) -> str:
    return str(limit + 1 if limit in {0, 1, 2} else limit * 1.2)


def less(limit: float) -> str:
    return str(limit - 1 if limit in {0, 1, 2} else limit * 0.8)


def write(folder: Path, name: str, alert: str, rule: Rule) -> Path:
    """Write a rule with what is recorded for it, and its test; returns the test."""
    (here := folder / name).mkdir()
    recorded = [r for f in FILES.values() for g in f["groups"] for r in g["rules"] if "record" in r]
    needed = [r for r in recorded if r["record"] in rule["expr"]]
    groups = [{"name": "one", "rules": [*needed, rule]}]
    (here / "rules.yml").write_text(yaml.dump({"groups": groups}, Dumper=DUMPER), "utf-8")
    (file,) = (file for file in TESTS.values() if any(t["name"] == alert for t in file["tests"]))
    test = copy.deepcopy({**file, "rule_files": ["rules.yml"]})
    test["tests"] = [each for each in file["tests"] if each["name"] == alert]
    (here / "test.yml").write_text(yaml.dump(test, Dumper=DUMPER), "utf-8")
    return here / "test.yml"
