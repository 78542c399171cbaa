"""One run of `onramp top`: scrapes both services, and shows the figures between two scrapes."""

import json
import time
from collections.abc import Mapping

from services.cli.exits import Exit, complain
from services.cli.show.tables import show
from services.cli.show.top import View, tables_of, view_of
from shared.metric_pages import PageError, Scrape, read_metrics


class TopRun:
    """Scrapes services, given by name and address."""

    def __init__(self, services: Mapping[str, str], seconds: float) -> None:
        self._services = services
        self._seconds = seconds
        #: The last scrape of each service; an unreachable service retains its last one, and is reported.
        self._last: dict[str, Scrape] = {}
        #: Scrapes of the services that answered the last time.
        self._answered: dict[str, Scrape] = {}
        self._problems: list[str] = []

    def once(self, *, as_json: bool) -> Exit:
        """Scrape twice, print the figures, and return the exit code."""
        self._have_all_shown()
        self._next()
        view = self._next()
        if as_json:
            print(json.dumps({"seconds": self._seconds, "problems": self._problems, **view.as_dict()}))
        else:
            show(tables_of(view, []))
            for problem in self._problems:
                complain(problem)
        return Exit.UNAVAILABLE if self._problems else Exit.OK

    def stay(self) -> Exit:
        """Show the figures until Ctrl-C."""
        from rich.live import Live

        self._have_all_shown()
        self._next()
        try:
            with Live(auto_refresh=False, screen=True) as live:
                while True:
                    live.update(tables_of(self._next(), self._problems), refresh=True)
        except KeyboardInterrupt:
            return Exit.OK

    def _have_all_shown(self) -> None:
        """Scrape once in advance: a new series starts at 0, and its past would appear as a burst."""
        for name in self._services:
            self._scrape(name)
        self._problems = []

    def _next(self) -> View:
        """Scrape each service, after a pause except for the first time, and compare with the last scrape."""
        if self._answered or self._problems:
            time.sleep(self._seconds)
        self._problems = []
        before = self._answered
        looks = {name: self._scrape(name) for name in self._services}
        self._answered = {name: look for name, look in looks.items() if look is not None}
        self._last |= self._answered
        # A service without an answer, now or before, has no figures.
        both = before.keys() & self._answered.keys()
        pairs = [(before[name] if name in both else now, now) for name, now in self._last.items()]
        between = max((now.at - was.at for was, now in pairs), default=0.0)
        return view_of(
            Scrape(0.0, [each for was, _ in pairs for each in was.samples]),
            Scrape(between, [each for _, now in pairs for each in now.samples]),
        )

    def _scrape(self, name: str) -> Scrape | None:
        try:
            return read_metrics(self._services[name])
        except PageError as error:
            self._problems.append(f"The {name} does not answer: {error.problem}")
            return None
