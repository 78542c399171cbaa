"""A part without which events land is told of when it ends, once."""

from stack.errors import StackError
from stack.optional_parts import Beside


class _Told:
    """A report that keeps its notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class _Part:
    def __init__(self) -> None:
        self.ended = False

    def check(self) -> None:
        if self.ended:
            raise StackError("python ended with 137.", log_tail="the last line")


def test_a_part_that_ends_is_told_once_with_its_logs_end_and_ends_no_other() -> None:
    told, admin, capture = _Told(), _Part(), _Part()
    beside = Beside(told)  # type: ignore[arg-type]
    assert beside.add("the admin service", admin) is admin  # type: ignore[arg-type]
    beside.add("what captures sources", capture)  # type: ignore[arg-type]
    beside.report_ended()
    assert told.notes == []
    admin.ended = True
    beside.report_ended()
    beside.report_ended()
    (note,) = told.notes
    assert note.startswith("The admin service has ended")
    assert "137" in note
    assert "the last line" in note
    capture.ended = True
    beside.report_ended()
    assert len(told.notes) == 2
    assert admin in beside
    assert _Part() not in beside
