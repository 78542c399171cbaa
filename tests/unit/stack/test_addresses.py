"""Verbs find the addresses of the running stack, also if its usual ports were taken."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli import connection_options
from services.cli.app import app
from stack.addresses import Addresses, forget, known, note

_UNREACHABLE = 3


def test_noted_addresses_are_returned_until_they_are_forgotten(tmp_path: Path) -> None:
    running = Addresses(kafka="127.0.0.1:29092", gateway="http://127.0.0.1:28080", postgres_port=25432)
    assert known(tmp_path) == Addresses()
    note(tmp_path, running)
    assert known(tmp_path) == running
    forget(tmp_path)
    assert known(tmp_path) == Addresses()
    forget(tmp_path)


def test_verbs_find_kafka_and_the_database_of_a_running_stack(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "password").write_text("pw")
    note(tmp_path, Addresses(kafka="127.0.0.1:29092", postgres_port=25432))
    found = connection_options.kafka_and_databases(data_dir=tmp_path)
    assert found.kafka == "127.0.0.1:29092"
    assert found.databases == {"onramp": "postgresql://onramp:pw@127.0.0.1:25432/onramp"}
    dsn = "postgresql://db.example/x"
    given = connection_options.kafka_and_databases(kafka="kafka.example:9092", dsn=dsn, data_dir=tmp_path)
    assert (given.kafka, given.databases) == ("kafka.example:9092", {"onramp": dsn})


def test_send_finds_the_gateway_of_a_running_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONRAMP_URL", raising=False)
    note(tmp_path, Addresses(gateway="http://127.0.0.1:1"))
    answer = CliRunner().invoke(app, ["send", "--event", "x", "--wait", "0", "--data-dir", str(tmp_path)])
    assert answer.exit_code == _UNREACHABLE
    assert "127.0.0.1:1" in answer.output
