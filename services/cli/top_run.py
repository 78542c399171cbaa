"""One run of `onramp top`: reads both services' figures, and shows the changes between two readings."""

import json
import time
from dataclasses import dataclass, replace

from services.cli.exits import Exit, complain
from services.cli.show.tables import show
from services.cli.show.top import Pair, View, tables_of, view_of
from shared.figures import GatewayFigures, WriterFigures
from shared.service_pages import Figures, PageError, read_figures


@dataclass(frozen=True, slots=True)
class _Reading:
    """The last figures of both services, and when each was read (monotonic seconds)."""

    gateway: GatewayFigures | None = None
    writer: WriterFigures | None = None
    gateway_at: float = 0.0
    writer_at: float = 0.0


class TopRun:
    """Reads the gateway and the writer at two addresses."""

    def __init__(self, gateway: str, writer: str, seconds: float) -> None:
        self._gateway = gateway
        self._writer = writer
        self._seconds = seconds
        #: An unreachable service retains its last figures, and is reported.
        self._last = _Reading()
        #: The last reading as far as the services answered.
        self._answered = _Reading()
        self._problems: list[str] = []

    def once(self, *, as_json: bool) -> Exit:
        """Read twice, print the figures, and return the exit code."""
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

        self._next()
        try:
            with Live(auto_refresh=False, screen=True) as live:
                while True:
                    live.update(tables_of(self._next(), self._problems), refresh=True)
        except KeyboardInterrupt:
            return Exit.OK

    def _next(self) -> View:
        """Read each service, after a pause except for the first time, and compare with the last reading."""
        before = self._answered
        if before != _Reading() or self._problems:
            time.sleep(self._seconds)
        self._problems = []
        gateway = self._read("gateway", self._gateway, GatewayFigures)
        gateway_at = time.monotonic()
        writer = self._read("writer", self._writer, WriterFigures)
        now = self._answered = _Reading(gateway, writer, gateway_at, time.monotonic())
        if gateway is not None:
            self._last = replace(self._last, gateway=gateway)
        if writer is not None:
            self._last = replace(self._last, writer=writer)
        # A service without an answer, now or before, has no rates.
        has_gateway, has_writer = bool(before.gateway and gateway), bool(before.writer and writer)
        return view_of(
            Pair(
                before.gateway if has_gateway else self._last.gateway,
                self._last.gateway,
                now.gateway_at - before.gateway_at if has_gateway else 0.0,
            ),
            Pair(
                before.writer if has_writer else self._last.writer,
                self._last.writer,
                now.writer_at - before.writer_at if has_writer else 0.0,
            ),
        )

    def _read(self, name: str, url: str, kind: type[Figures]) -> Figures | None:
        try:
            return read_figures(url, kind)
        except PageError as error:
            self._problems.append(f"The {name} does not answer: {error.problem}")
            return None
