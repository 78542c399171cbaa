"""The end of a part that events do not need is reported once."""

from stack.errors import StackError
from stack.optional_parts import OptionalParts


class _Told:
    """A report that records its lines."""

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


def test_ended_part_is_reported_once_with_the_end_of_its_log_and_ends_no_other_part() -> None:
    told, admin, capture = _Told(), _Part(), _Part()
    parts = OptionalParts(told)  # type: ignore[arg-type]
    assert parts.add("the admin service", admin) is admin  # type: ignore[arg-type]
    parts.add("the capture of sources", capture)  # type: ignore[arg-type]
    parts.report_ended()
    assert told.notes == []
    admin.ended = True
    parts.report_ended()
    parts.report_ended()
    (note,) = told.notes
    assert note.startswith("The admin service has ended")
    assert "137" in note
    assert "the last line" in note
    capture.ended = True
    parts.report_ended()
    assert len(told.notes) == 2
    assert admin in parts
    assert _Part() not in parts
