"""One run of `onramp up`: start the stack, do the main job, stay until a signal, stop everything."""

import json
import time
from typing import TYPE_CHECKING, Final

from services.cli.exits import Exit, explain
from services.cli.show.stack_up import as_dict, lines_of, where_to_look

if TYPE_CHECKING:
    from stack.report import Report
    from stack.up import Plan

_CHECK_SECONDS: Final = 0.5


class StackRun:
    """Holds what the stages of a run share: the stack, where progress goes, and who may interrupt."""

    def __init__(self, plan: "Plan", report: "Report", *, events: int, leave: bool, as_json: bool) -> None:
        """Take the plan; nothing is started before `run`.

        Args:
            plan: what to start and where.
            report: where progress goes.
            events: how many flights to send; 0 sends none.
            leave: end when they have landed, and do not stay up.
            as_json: print the result as JSON.
        """
        from stack.interrupts import Interrupts
        from stack.up import Stack

        self._report = report
        self._events = events
        self._leave = leave
        self._as_json = as_json
        self._interrupts = Interrupts()
        self._stack = Stack(plan, report, self._interrupts)

    def run(self) -> Exit:
        """Run from start to stop, and return the exit code; errors of the stack are printed."""
        from stack.errors import StackError
        from stack.interrupts import Stopped

        code = Exit.OK
        with self._interrupts.listen():
            try:
                self._stack.start()
                code = self._main_job() if self._events else code
                if not self._leave:
                    self._stay()
            except Stopped:
                # Asked to stop is the usual end of staying up, and no success of a job that was to finish.
                code = Exit.FAILED if self._leave else code
            except StackError as error:
                code = explain(self._stack.crash() or error)
            finally:
                self._stack.stop()
        return code

    def _main_job(self) -> Exit:
        from stack.demo import Demo

        stack = self._stack
        demo = Demo(
            stack.gateway, stack.dsn, self._events, self._report, api_key=stack.api_key, check=stack.check
        )
        with self._interrupts.allowed():
            outcome = demo.run()
        if self._as_json:
            print(json.dumps(as_dict(outcome)))
        else:
            self._note(lines_of(outcome))
        return Exit.OK if outcome.adds_up else Exit.FAILED

    def _stay(self) -> None:
        """Stay until a signal, and watch: a part that crashes is an error with its name."""
        self._note(where_to_look(self._stack))
        with self._interrupts.allowed():
            while True:
                self._stack.check()
                time.sleep(_CHECK_SECONDS)

    def _note(self, lines: list[str]) -> None:
        for line in lines:
            self._report.note(line)
