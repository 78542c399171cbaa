"""`onramp audit --metrics FILE`: the file for the node exporter is replaced atomically."""

from pathlib import Path

import pytest
import typer
from prometheus_client.parser import text_string_to_metric_families

from services.cli.show import audit_metrics
from services.cli.verbs import audit
from services.ops.findings import Code, Finding, Report, Source


def read(file: Path) -> dict[str, float]:
    families = text_string_to_metric_families(file.read_text("utf-8"))
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_findings_what_is_unjudged_and_the_time_are_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_metrics.time, "time", lambda: 1_700_000_000.0)
    finding = Finding(Code.LOST, Source("events.a", 0), 1, "it is in no place")
    report = Report(findings=[finding, finding], unjudged=3, in_motion=1, leaderless=["events.b/0"])
    audit_metrics.write(report, tmp_path / "onramp.prom")
    assert read(tmp_path / "onramp.prom") == {
        "onramp_audit_findings": 2,
        "onramp_audit_unchecked": 5,
        "onramp_audit_timestamp_seconds": 1_700_000_000,
    }


def test_reader_during_a_write_sees_the_old_file_or_the_new_file(tmp_path: Path) -> None:
    file = tmp_path / "onramp.prom"
    audit_metrics.write(Report(), file)
    before = file.read_text("utf-8")
    with file.open(encoding="utf-8") as reader:
        audit_metrics.write(Report(unjudged=7), file)
        assert reader.read() == before
    assert read(file)["onramp_audit_unchecked"] == 7
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match=r"away/onramp\.prom cannot be written: No such file"):
        audit._write(Report(), tmp_path / "away/onramp.prom")
