"""One run of `onramp top`: looks at both services, and shows what happened between two looks."""

import json
import time
from collections.abc import Mapping

from services.cli.exits import Exit, complain
from services.cli.looks import Look, read
from services.cli.show.top import View, tables_of, view_of


class TopRun:
    """Looks at services by their names and addresses."""

    def __init__(self, services: Mapping[str, str], seconds: float) -> None:
        self._services = services
        self._seconds = seconds
        #: What each service said last; a service that does not answer stays as it was, and is named.
        self._last: dict[str, Look] = {}
        self._problems: list[str] = []

    def once(self, *, as_json: bool) -> Exit:
        """Look twice, print what happened between, and return the exit code."""
        from rich.console import Console

        self._next()
        view = self._next()
        if as_json:
            print(json.dumps({"seconds": self._seconds, "problems": self._problems, **view.as_dict()}))
        else:
            Console(highlight=False).print(tables_of(view, []))
            for problem in self._problems:
                complain(problem)
        return Exit.UNAVAILABLE if self._problems else Exit.OK

    def stay(self) -> Exit:
        """Show it until Ctrl-C."""
        from rich.live import Live

        self._next()
        try:
            with Live(auto_refresh=False, screen=True) as live:
                while True:
                    live.update(tables_of(self._next(), self._problems), refresh=True)
        except KeyboardInterrupt:
            return Exit.OK

    def _next(self) -> View:
        """Look at each, after the pause when it is not the first time, and compare with the look before."""
        before = self._last
        if before:
            time.sleep(self._seconds)
        self._problems = []
        self._last = {name: self._look(name) for name in self._services}
        # Of one that did not answer before, nothing is known to have happened since.
        since = {
            name: look if (was := before.get(name)) is None or not was.samples else was
            for name, look in self._last.items()
        }
        return view_of(_together(since), _together(self._last))

    def _look(self, name: str) -> Look:
        from stack.errors import UnavailableError

        try:
            return read(self._services[name])
        except UnavailableError as error:
            self._problems.append(f"The {name} does not answer: {error.problem}")
            return Look(time.monotonic())


def _together(looks: Mapping[str, Look]) -> Look:
    return Look(
        max(look.at for look in looks.values()), [each for look in looks.values() for each in look.samples]
    )
