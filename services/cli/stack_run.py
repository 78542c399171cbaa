"""One run of `onramp up`: start the stack, do the main job, wait for a signal, stop everything."""

import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from services.cli.exits import Exit, explain
from services.cli.show.stack_up import as_dict, lines_of, lines_of_source, next_steps

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from services.cli.connection_options import Where
    from services.cli.followed_file import FollowedFile
    from stack.plan import Plan
    from stack.report import Report

_CHECK_SECONDS: Final = 0.5


class StackRun:
    """The shared state of a run's stages: the stack, the progress report, and signal handling."""

    def __init__(
        self,
        plan: "Plan",
        report: "Report",
        *,
        events: int,
        leave: bool,
        as_json: bool,
        registry: "Path | None",
        where: "Callable[..., Where]",
    ) -> None:
        """Take the plan; nothing is started before `run`.

        Args:
            plan: what to start and where.
            report: where progress goes.
            events: how many flights to send; 0 sends none.
            leave: end when they have landed.
            as_json: print the result as JSON.
            registry: the registry's file, applied at the start and whenever it changes, or None.
            where: all databases of the writer, for tables that the file requires.
        """
        from stack.interrupts import Interrupts
        from stack.up import Stack

        self._report = report
        self._events = events
        self._leave = leave
        self._as_json = as_json
        self._interrupts = Interrupts()
        self._stack = Stack(plan, report, self._interrupts, self._apply_registry)
        self._registry = registry
        self._where = where
        self._followed: FollowedFile | None = None

    def run(self) -> Exit:
        """Run from start to stop, and return the exit code; errors of the stack are printed."""
        from stack.errors import StackError
        from stack.interrupts import Stopped

        code = Exit.OK
        with self._interrupts.listen():
            try:
                self._stack.start()
                self._retry_registry()
                code = self._main_job() if self._events else code
                if not self._leave:
                    self._stay()
            except Stopped:
                # A signal is the usual end of a run, but not a success of an unfinished job.
                code = Exit.FAILED if self._leave else code
            except StackError as error:
                code = explain(self._stack.crash() or error)
            finally:
                with ExitStack() as last:  # whatever the first of them raises, the stack is stopped
                    last.callback(self._stack.stop)
                    if self._followed is not None:
                        last.callback(self._followed.close)
        return code

    def _apply_registry(self) -> None:
        from services.cli.followed_file import FollowedFile
        from shared.registry.factory import open_log
        from shared.settings import RegistrySettings

        if self._registry is None:
            return
        where = self._where(kafka=self._stack.bootstrap, dsn=self._stack.dsn)
        log = open_log(RegistrySettings(), where.kafka_settings)
        self._followed = FollowedFile(log, self._registry, where, self._note)
        with self._report.step(f"Applying {self._registry}"), self._interrupts.allowed():
            self._followed.apply_if_changed()

    def _retry_registry(self) -> None:
        """Retry a refused file: the writer has created its schemas by now."""
        if self._followed is not None:
            self._followed.retry_refused()

    def _check(self) -> None:
        """Raise if a part has crashed, and check the registry's file."""
        self._stack.check()
        if self._followed is not None:
            self._followed.apply_if_changed()

    def _main_job(self) -> Exit:
        from stack.demo import Demo

        stack = self._stack
        demo = Demo(
            stack.gateway, stack.dsn, self._events, self._report, api_key=stack.api_key, check=self._check
        )
        with self._interrupts.allowed():
            outcome = demo.run()
        if self._as_json:
            print(json.dumps(as_dict(outcome)))
        else:
            self._note(lines_of(outcome))
        return Exit.OK if outcome.adds_up else Exit.FAILED

    def _stay(self) -> None:
        """Wait for a signal and watch the parts: a crash is an error with the part's name."""
        self._note(next_steps(self._stack))
        while True:
            with self._interrupts.allowed():
                self._check()
                time.sleep(_CHECK_SECONDS)
            self._follow_sources()
            self._follow_transforms()

    def _follow_sources(self) -> None:
        """Start capturing sources that are added later; a failure does not affect events."""
        from stack.errors import StackError

        try:
            new = self._stack.follow_sources()
        except StackError as error:
            new = self._stack.sources
            self._note([f"Capturing sources did not start; run `onramp up` again: {error}"])
        self._note([line for name in new for line in lines_of_source(self._stack, name)])

    def _follow_transforms(self) -> None:
        """Start the transform service for a transform that is added later; a failure affects no event."""
        from stack.errors import StackError

        try:
            if url := self._stack.follow_transforms():
                self._note([f"The transform service runs: {url}/status"])
        except StackError as error:
            self._note([f"The transform service did not start; run `onramp up` again: {error}"])

    def _note(self, lines: list[str]) -> None:
        for line in lines:
            self._report.note(line)
