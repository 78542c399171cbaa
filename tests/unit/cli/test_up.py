"""`onramp up`: a given password is not printed, and setups that cannot start are refused."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.cli.exits import Exit
from services.cli.verbs.up import _registry_file
from stack.postgres import without_password


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:hunter2@db.example:5433/test",
        "host=db.example port=5433 user=me password=hunter2 dbname=test",
    ],
)
def test_a_given_password_is_not_shown(dsn: str) -> None:
    shown = without_password(dsn)
    assert "hunter2" not in shown
    assert set(shown.split()) == {"host=db.example", "port=5433", "user=me", "dbname=test"}


@pytest.mark.parametrize("options", [["--brokers", "2"], ["--brokers", "3", "--kafka", "kafka.example:9092"]])
def test_brokers_that_cannot_be_started_are_refused_before_anything_starts(options: list[str]) -> None:
    answer = CliRunner().invoke(app, ["up", *options])
    assert answer.exit_code == Exit.USAGE
    assert "--brokers" in answer.output


def test_a_registry_that_is_none_ends_it_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    for text, said in (
        ("event_types:\n  a:\n    ownr: x\n", "line 3: event_types.a.ownr"),
        ("keys: [", "line 2"),
    ):
        file.write_text(text)
        answer = CliRunner().invoke(
            app, ["up", "--registry", str(file), "--data-dir", str(tmp_path / "data")]
        )
        assert (answer.exit_code, said in answer.stderr) == (Exit.FAILED, True), answer.stderr
    answer = CliRunner().invoke(app, ["up", "--registry", str(tmp_path / "none.yaml")])
    assert (answer.exit_code, "none.yaml does not exist" in answer.stderr) == (Exit.FAILED, True)
    assert not (tmp_path / "data").exists()


def test_the_folders_file_goes_into_the_embedded_kafka_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _registry_file(None, None) is None
    Path("onramp.yaml").write_text("event_types: {}\n")
    assert _registry_file(None, None) == Path("onramp.yaml")
    assert _registry_file(None, "kafka.example:9092") is None
    assert "--registry onramp.yaml applies it" in capsys.readouterr().err
    assert _registry_file(Path("onramp.yaml"), "kafka.example:9092") == Path("onramp.yaml")
