"""A part whose start fails is reported with its own error, in any state of the other parts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from services.cli.exits import Exit
from services.cli.stack_run import StackRun
from stack import services
from stack.capture import Capture
from stack.errors import StackError
from stack.kafka import Kafka
from stack.part_process import Part
from stack.plan import Plan
from stack.postgres import Postgres
from stack.prometheus import Programs, Prometheus
from stack.report import Silent
from stack.up import Stack

NOWHERE = "127.0.0.1:1"

PARTS: dict[str, Callable[[Path], Part]] = {
    "Kafka": Kafka,
    "Postgres": Postgres,
    "gateway": lambda folder: services.gateway(bootstrap=NOWHERE, log=folder / "log"),
    "writer": lambda folder: services.writer(bootstrap=NOWHERE, dsn="", log=folder / "log"),
    "admin": lambda folder: services.admin(bootstrap=NOWHERE, dsn="", log=folder / "log"),
    "capture": lambda folder: Capture(folder, NOWHERE, [], env={}),
    "Prometheus": lambda folder: Prometheus(folder, {}, programs=Programs(folder, folder)),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_failed_start_shows_the_error_of_its_part_and_the_end_of_its_log(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part = PARTS[name](tmp_path)

    def fail() -> None:
        raise StackError(f"{name} could not be initialised.", log_tail="permission denied")

    monkeypatch.setattr(part, "start", fail)
    monkeypatch.setattr(Stack, "start", lambda stack: stack._launch(name, part))
    run = StackRun(
        Plan(data_dir=tmp_path),
        Silent(),
        events=0,
        leave=True,
        as_json=False,
        registry=None,
        where=lambda **_: pytest.fail("nothing is applied"),
    )
    assert run.run() is Exit.FAILED
    printed = capsys.readouterr().err
    assert f"onramp: {name} could not be initialised." in printed
    assert "permission denied" in printed
    assert "has not been started" not in printed
