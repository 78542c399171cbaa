"""Prometheus' own promtool runs the rules' tests, and each test needs its rule's every number.

A rule with a limit that is a fifth off, with another patience or severity must make its test red: else the
test would pass whatever the rule said.
"""

import json
import math
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stack.prometheus import Programs
from tests.unit.conventions.tree import ROOT, report
from tests.unit.deploy.rules import ALERTS, FILES, RULES, TESTS

Rule = dict[str, Any]
#: A number of a query that is in no text, no window and no name.
NUMBER = re.compile(r'"[^"]*"|\[[^\]]*\]|offset \w+|[A-Za-z_:][\w:]*|(?P<number>\d+(?:\.\d+)?)')
#: Changes that no alert can tell: it fires always, or its value alone is another one.
SAME = {("OnrampWatchdog", "number-0-more"), ("OnrampWatchdog", "number-0-less")} | {
    ("OnrampInflowOutOfBounds", "number-1-less")
}


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


@pytest.mark.full
def test_the_rules_tests_pass_with_all_rules_loaded(programs: Programs) -> None:
    """Twenty CPU seconds, as each of the tests evaluates each of the rules."""
    said = promtool(programs, "test", "rules", *sorted((RULES.parent / "tests").glob("*.yml")))
    assert (said.count("SUCCESS"), "FAILED" in said) == (len(TESTS), False), said


def test_each_rule_passes_its_test(programs: Programs, tmp_path: Path) -> None:
    originals = [write(tmp_path, f"{alert}-original", alert, rule) for alert, rule in ALERTS.items()]
    together = [RULES.parent / "tests" / name for name in TESTS if name not in FILES]
    results = _results(programs, *originals, *together)
    assert set(results) == {*originals, *together}
    failed = [f"{file}: {result}" for file, result in results.items() if result != "SUCCESS"]
    assert failed == [], report(failed)


@pytest.mark.full
def test_no_changed_rule_passes_its_test(programs: Programs, tmp_path: Path) -> None:
    """Forty CPU seconds: each limit, label and duration of each rule is changed once."""
    changed = {
        write(tmp_path, f"{alert}-{name}", alert, changed_rule): f"{alert}, {name}"
        for alert, rule in ALERTS.items()
        for name, changed_rule in mutants(rule)
    }
    results = _results(programs, *changed)
    unnoticed = [rule for file, rule in changed.items() if not results[file].startswith("FAILED")]
    assert unnoticed == [], f"make their tests depend on these numbers too: {report(unnoticed)}"
    assert len(changed) > 3 * len(ALERTS)


def _results(programs: Programs, *files: Path) -> dict[Path, str]:
    """Return promtool's output for each file of tests."""
    said = promtool(programs, "test", "rules", *files)
    found = re.findall(r"Unit Testing: +(\S+)\n((?: +.*\n|\n)*)", f"{said}\n")
    return {Path(file): result.strip() for file, result in found}


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    query = rule["expr"]
    numbers = [found for found in NUMBER.finditer(query) if found["number"]]
    largest = max((float(found["number"]) for found in numbers), default=0)
    for n, found in enumerate(numbers):
        number = float(found["number"])
        by = max(1, largest / 100) if number in {0, 1, 2} else number / 5
        for name, limit in (("more", number + by), ("less", number - by)):
            if (rule["alert"], f"number-{n}-{name}") not in SAME:
                changed = query[: found.start()] + str(limit) + query[found.end() :]
                yield f"number-{n}-{name}", rule | {"expr": changed}
    if "for" in rule:
        for name, times in (("longer", 1.5), ("shorter", 0.5), ("none", 0)):
            yield f"for-{name}", rule | {"for": f"{int(seconds(rule['for']) * times)}s"}
    # Red if the test expects the alert at all.
    yield "severity", rule | {"labels": {"severity": "another"}}


def write(folder: Path, name: str, alert: str, rule: Rule) -> Path:
    """Write a rule with what is recorded for it, and its test, as JSON, which is YAML.  Return the test."""
    (here := folder / name).mkdir()
    recorded = [r for f in FILES.values() for g in f["groups"] for r in g["rules"] if "record" in r]
    needed = [r for r in recorded if r["record"] in rule["expr"]]
    groups = [{"name": "one", "rules": [*needed, rule]}]
    (here / "rules.yml").write_text(json.dumps({"groups": groups}), "utf-8")
    (file,) = (file for file in TESTS.values() if any(t["name"] == alert for t in file["tests"]))
    tests = [each for each in file["tests"] if each["name"] == alert]
    test = {"rule_files": ["rules.yml"], "evaluation_interval": interval(tests, rule), "tests": tests}
    (here / "test.yml").write_text(json.dumps(test), "utf-8")
    return here / "test.yml"


def interval(tests: list[dict[str, Any]], rule: Rule) -> str:
    """Return the longest interval that meets each moment of a rule's tests: evaluations cost the time."""
    times = [check["eval_time"] for test in tests for check in test["promql_expr_test"]]
    times += [test["interval"] for test in tests]
    return f"{math.gcd(*(seconds(time) for time in (*times, rule.get('for', '0s'))))}s"


def seconds(time: str) -> int:
    return sum(int(n) * {"h": 3600, "m": 60, "s": 1}[unit] for n, unit in re.findall(r"(\d+)([hms])", time))
