"""Parts that landing does not need: the end of one is reported once, and stops no other part."""

from stack.errors import StackError
from stack.part_process import Part
from stack.report import Report


class OptionalParts:
    """Watches the optional parts; other checks of the stack skip them (`in`)."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._parts: dict[str, Part] = {}
        self._ended: set[str] = set()

    def __contains__(self, part: Part) -> bool:
        return any(part is each for each in self._parts.values())

    def add(self, name: str, part: Part) -> Part:
        """Watch `part` under the display name `name`; return it."""
        self._parts[name] = part
        return part

    def report_ended(self) -> None:
        """Report each part that has ended since the last poll, with the end of its log."""
        for name in self._parts.keys() - self._ended:
            try:
                self._parts[name].check()
            except StackError as error:
                self._ended.add(name)
                self._report.note(
                    f"{name[:1].upper()}{name[1:]} has ended, and nothing starts it again before the next "
                    f"`onramp up`; events land as before. {error}"
                )
