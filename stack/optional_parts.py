"""Parts without which events land as before: one that ends by itself is told once, and ends nobody else."""

from stack.errors import StackError
from stack.part_process import Part
from stack.report import Report


class Beside:
    """Watches such parts; what else looks at the stack leaves them out (`in`)."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._parts: dict[str, Part] = {}
        self._ended: set[str] = set()

    def __contains__(self, part: Part) -> bool:
        return any(part is each for each in self._parts.values())

    def add(self, name: str, part: Part) -> Part:
        """Watch `part`, which people know as `name`; return it."""
        self._parts[name] = part
        return part

    def look(self) -> None:
        """Tell of each part that has ended since the last look, with the end of its log."""
        for name in self._parts.keys() - self._ended:
            try:
                self._parts[name].check()
            except StackError as error:
                self._ended.add(name)
                self._report.note(
                    f"{name[:1].upper()}{name[1:]} has ended, and nothing starts it again before the next "
                    f"`onramp up`; events land as before. {error}"
                )
