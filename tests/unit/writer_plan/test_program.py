"""The program `plan` for scripts: exit codes, and messages on standard error."""

from pathlib import Path

import pytest

from services.writer.plan import __main__ as program
from shared import logs
from shared.trial_program import Exit
from stack.ports import free_port


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The process of the tests keeps its priority and its logs."""
    monkeypatch.setattr(program, "give_way", lambda: None)
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.yaml").write_text("event_types: {}\n")
    monkeypatch.setenv("ONRAMP_KAFKA_BOOTSTRAP", f"127.0.0.1:{free_port()}")
    monkeypatch.setenv("ONRAMP_WRITER_DSN", f"postgresql://x:secret@127.0.0.1:{free_port()}/x")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--since", "2999-01-01T00:00:00Z"], "in the future"),
        (["--since", "soon"], "24h"),
        (["--last", "0"], "at least one event"),
        (["--last", "-3"], "at least one event"),
    ],
)
def test_a_window_that_is_none_is_wrong_usage(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main([*options, "new.yaml"]) == Exit.USAGE
    said = capsys.readouterr()
    assert says in said.err
    assert said.out == ""


def test_two_windows_are_wrong_usage() -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["--last", "1", "--since", "1h", "new.yaml"])
    assert ended.value.code == Exit.USAGE


def test_settings_that_are_wrong_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ONRAMP_WRITER_DATABASES", "{")
    assert program.main(["new.yaml"]) == Exit.USAGE
    assert "ONRAMP_WRITER_" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["event_types: [", "event_types: {A: {}}", "nonsense: 1"])
def test_a_file_that_is_no_registry_is_1_and_says_where(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new.yaml").write_text(text)
    assert program.main(["new.yaml"]) == Exit.FAILED
    assert capsys.readouterr().err.startswith("onramp: new.yaml")


def test_unreachable_kafka_exits_with_3_and_prints_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["new.yaml"]) == Exit.UNAVAILABLE
    said = capsys.readouterr().err
    assert "cannot be reached" in said
    assert "secret" not in said
