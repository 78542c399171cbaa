"""`onramp send` to a real gateway: receipts for accepted events, reasons for rejected ones."""

import json
from pathlib import Path

from typer.testing import CliRunner

from services.cli.app import app
from stack.services import Service

run = CliRunner()


def envelope(event_id: str, event_name: str = "send_tested") -> str:
    metadata = {"id": event_id, "timestamp": "2026-01-01T12:00:00Z", "version": "1"}
    return json.dumps({"metadata": metadata, "event_name": event_name, "payload": {}})


def test_sent_event_gets_its_receipt(gateway: Service) -> None:
    arguments = ["--event", "send_tested", "--payload", '{"total": 42}', "--id", "one"]
    result = run.invoke(app, ["send", *arguments, "--url", gateway.url])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("one accepted: events.send_tested ")


def test_a_file_goes_in_batches_and_every_event_gets_a_line(gateway: Service, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text("\n\n".join(envelope(f"many-{number}") for number in range(25)), "utf-8")
    result = run.invoke(app, ["send", str(file), "--batch", "10", "--json", "--url", gateway.url])
    assert result.exit_code == 0, result.output
    answers = [json.loads(line) for line in result.output.splitlines()]
    assert [each["id"] for each in answers] == [f"many-{number}" for number in range(25)]
    assert len({(each["receipt"]["partition"], each["receipt"]["offset"]) for each in answers}) == 25


def test_rejected_event_is_reported_with_its_reason_and_other_events_are_accepted(gateway: Service) -> None:
    lines = [envelope("good-1"), envelope("bad", event_name="No Such Name"), envelope("good-2")]
    result = run.invoke(app, ["send", "-", "--url", gateway.url], input="\n".join(lines))
    assert result.exit_code == 1, result.output
    good, bad, other = result.output.splitlines()
    assert "good-1 accepted" in good
    assert "bad rejected (4" in bad
    assert "good-2 accepted" in other


def test_a_request_refused_as_a_whole_gives_every_event_its_reason(gateway: Service) -> None:
    lines = [envelope(each, event_name="No Such Name") for each in ("a", "b")]
    result = run.invoke(app, ["send", "-", "--url", gateway.url], input="\n".join(lines))
    assert result.exit_code == 1, result.output
    assert [line.split()[:2] for line in result.output.splitlines()] == [["a", "rejected"], ["b", "rejected"]]
