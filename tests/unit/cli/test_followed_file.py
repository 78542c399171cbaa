"""`onramp up` follows the registry's file: a save comes into force, or the reason for refusal is shown."""

import os
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from services.cli.followed_file import FollowedFile
from services.ops.registry.change import State
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.registry import Snapshot
from shared.registry.difference import difference
from shared.registry.editor import Editor
from shared.registry.log import MemoryLog

TYPES = "event_types:\n  order_placed:\n    owner: {}\n"


class Log(MemoryLog):
    """A registry that can be unreachable, and in which another change may come first."""

    def __init__(self) -> None:
        super().__init__()
        self.is_out = False
        self.rivals: list[Callable[[], None]] = []

    def append(self, value: bytes) -> int:
        if self.is_out:
            raise InfrastructureError(KAFKA_UNAVAILABLE, "Kafka is out")
        if self.rivals:
            self.rivals.pop()()
        return super().append(value)


class Terminal:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "onramp.yaml"
        self.log = Log()
        self.lines: list[str] = []
        self.followed = FollowedFile(self.log, self.file, None, self.lines.extend)
        self._saved = 0

    def save(self, text: str) -> State | None:
        self.file.write_text(text)
        self._saved += 1
        os.utime(self.file, ns=(self._saved, self._saved))  # two within a tick of the clock differ
        return self.followed.apply_if_changed()

    @property
    def owner(self) -> str:
        return Editor(self.log).chain.snapshot().event_types["order_placed"].owner

    def said(self) -> str:
        lines, self.lines[:] = "\n".join(self.lines), []
        return lines


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


def test_each_save_comes_into_force_and_is_reported_once(terminal: Terminal) -> None:
    assert terminal.save(TYPES.format("ann")) is State.APPLIED
    assert "onramp.yaml is in force:\n  + event_types.order_placed" in terminal.said()
    assert terminal.followed.apply_if_changed() is None
    assert terminal.save(TYPES.format("bob")) is State.APPLIED
    assert (terminal.owner, "~ event_types.order_placed: owner" in terminal.said()) == ("bob", True)
    assert terminal.save(TYPES.format("bob") + "# nothing new\n") is State.UNCHANGED
    assert (terminal.said(), len(terminal.log.records)) == ("", 2)


def test_invalid_edit_is_reported_with_line_and_fix_and_the_previous_state_stays(terminal: Terminal) -> None:
    terminal.save(TYPES.format("ann"))
    terminal.said()
    assert terminal.save(TYPES.replace("owner", "ownr").format("bob")) is State.REFUSED
    said = terminal.said()
    assert (
        "NOT in force, the previous state remains: onramp.yaml, line 3: event_types.order_placed.ownr" in said
    )
    assert "did you mean `owner`?" in said
    assert "(correct it and save it again)" in said
    assert (terminal.owner, terminal.followed.apply_if_changed(), terminal.said()) == ("ann", None, "")
    assert terminal.save(TYPES.format("bob")) is State.APPLIED
    assert terminal.owner == "bob"


def test_a_file_that_is_half_written_is_waited_for(terminal: Terminal) -> None:
    whole = TYPES.format("ann") + "  refund_made: {}\n"
    terminal.save(whole)
    assert terminal.save(whole[:-7]) is State.REFUSED
    assert "is being written" in terminal.said()
    assert set(Editor(terminal.log).chain.snapshot().event_types) == {"order_placed", "refund_made"}
    assert terminal.save(whole) is State.UNCHANGED


def test_a_file_that_goes_away_takes_nothing_with_it(terminal: Terminal) -> None:
    terminal.save(TYPES.format("ann"))
    terminal.said()
    terminal.file.unlink()
    for _ in range(3):
        assert terminal.followed.apply_if_changed() is None
    assert terminal.said().endswith("does not exist: its last version remains in force")
    assert terminal.owner == "ann"
    assert terminal.save(TYPES.format("bob")) is State.APPLIED


def test_while_kafka_is_out_it_is_tried_again_without_another_save(terminal: Terminal) -> None:
    terminal.log.is_out = True
    assert terminal.save(TYPES.format("ann")) is None
    assert terminal.followed.apply_if_changed() is None
    assert terminal.said().count("retrying") == 1
    terminal.log.is_out = False
    assert terminal.followed.apply_if_changed() is State.APPLIED
    assert terminal.owner == "ann"


def somebody_else(log: MemoryLog, name: str) -> None:
    editor = Editor(log)
    types = dict(editor.chain.snapshot().event_types)
    wanted = Snapshot(event_types=types | Snapshot.model_validate({"event_types": {name: {}}}).event_types)
    change = {"format": 1, "after": editor.chain.last, "actor": "else", "time": "2026-01-01T00:00:00Z"}
    MemoryLog.append(log, orjson.dumps(change | {"put": difference(editor.chain, wanted).put}))


def test_a_change_that_was_first_is_taken_in_and_the_file_after_it(terminal: Terminal) -> None:
    terminal.log.rivals = [lambda: somebody_else(terminal.log, "theirs")]
    assert terminal.save(TYPES.format("ann")) is State.APPLIED
    assert set(Editor(terminal.log).chain.snapshot().event_types) == {"order_placed", "theirs"}


def test_save_that_keeps_conflicting_is_reported_and_retried_at_the_next_poll(terminal: Terminal) -> None:
    terminal.log.rivals = [lambda n=n: somebody_else(terminal.log, f"theirs_{n}") for n in range(5)]  # type: ignore[misc]
    assert terminal.save(TYPES.format("ann")) is State.CONFLICT
    assert "retrying" in terminal.said()
    assert terminal.followed.apply_if_changed() is State.APPLIED


def test_refused_file_is_checked_again_on_retry_without_repeating_its_message(terminal: Terminal) -> None:
    assert terminal.save(TYPES.replace("owner", "ownr").format("x")) is State.REFUSED
    assert terminal.followed.apply_if_changed() is None
    terminal.followed.retry_refused()
    terminal.said()
    assert terminal.followed.apply_if_changed() is State.REFUSED
    assert terminal.said() == ""
