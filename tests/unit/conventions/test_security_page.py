"""docs/security.md names an existing test for each of its rules."""

import re

from services.admin.settings import AdminSettings
from services.ingest.settings import IngestSettings
from shared.settings import AccessSettings
from tests.unit.conventions.tree import ROOT

PAGE = (ROOT / "docs/security.md").read_text("utf-8")
ROWS = re.findall(r"^\| (S\d+) \|([^|]*)\|([^|]*)\|([^|]*)\|$", PAGE, re.MULTILINE)
TESTS = "".join(file.read_text("utf-8") for file in (ROOT / "tests").rglob("test_*.py"))


def test_every_rule_has_a_line() -> None:
    assert [rule for rule, *_ in ROWS] == [f"S{n}" for n in range(1, 35)]
    assert all(held.strip() or left.strip() for _, _, held, left in ROWS)


def test_every_test_that_is_named_is_there() -> None:
    named = re.findall(r"`(test_\w+)`", PAGE)
    assert len(named) > 30
    assert [name for name in named if f"def {name}(" not in TESTS] == []


def test_every_risk_that_can_be_accepted_is_named() -> None:
    risks = [name for name in IngestSettings.model_fields if name.startswith("allow_")]
    assert len(risks) == 4
    assert [name for name in risks if f"ONRAMP_INGEST_{name.upper()}=true" not in PAGE] == []
    assert [name for name in AdminSettings.model_fields if name.startswith("allow_")] == [
        "allow_cleartext_http"
    ]
    assert "ONRAMP_ADMIN_ALLOW_CLEARTEXT_HTTP=true" in PAGE
    assert [f"ONRAMP_{name.upper()}=true" in PAGE for name in AccessSettings.model_fields] == [True]
