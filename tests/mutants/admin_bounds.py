"""What bounds the admin service: bodies, fixes, steps, who asks, and what its database or store refuses."""

from typing import Final

from tests.mutants.machine import Mutant

_API: Final = "tests/integration/admin/test_admin_api.py::test_"
_BODY: Final = f"{_API}a_body_that_nobody_would_read_is_in_no_memory"
_FIX: Final = "tests/unit/admin/test_fixes.py::test_a_fix_makes_no_more_than_twice_of_an_event_and_of_itself"
_PARTS: Final = (
    "tests/integration/admin/test_replay_jobs.py::test_what_a_fix_makes_is_in_memory_a_part_at_a_time"
)
_STUCK: Final = (
    "tests/integration/admin/test_segments.py::"
    "test_what_cannot_be_removed_stops_no_packing_and_no_other_removal"
)
_FROZEN: Final = "tests/integration/admin/test_frozen.py::test_"
_LOST: Final = f"{_FROZEN}a_job_whose_step_loses_its_connection_comes_again_after_the_others"
_TURNS: Final = "tests/unit/admin/test_turns.py::test_"
_ASIDE: Final = "tests/integration/admin/test_set_aside.py::test_"
_REFUSED: Final = f"{_ASIDE}what_is_refused_is_set_aside_and_kept_once_it_is_taken"

BOUNDS: Final = (
    Mutant(
        "the most bytes of a body that is in memory",
        "api/app.py",
        "        max_body_size=_MOST_BODY,\n",
        "",
        _BODY,
    ),
    Mutant(
        "that edited lines are more than another body may be",
        "api/edits.py",
        ", max_body_size=2 * MOST_BYTES)",
        ")",
        _BODY,
    ),
    Mutant(
        "that a type may be more than another body",
        "registry_api/types.py",
        ", max_body_size=2 * MOST_TYPE)",
        ")",
        _BODY,
    ),
    Mutant(
        "the longest fix",
        "fixes/steps.py",
        "        if len(self.text) > _LONGEST:\n",
        "        if False:\n",
        _FIX,
    ),
    Mutant(
        "the most that a fix makes of an event",
        "fixes/steps.py",
        "return min(MOST_BYTES, 2 * (size + len(self.text)))",
        "return MOST_BYTES",
        _FIX,
    ),
    Mutant(
        "that digits of a number are counted too in what a fix makes",
        "fixes/steps.py",
        "return len(value.text) if isinstance(value, exact.Number) else 0",
        "return 0",
        _FIX,
    ),
    Mutant(
        "that what a fix makes of many events is in memory a part at a time",
        "store/bytes_sql.py",
        "            if size >= MOST_EDITED or number in self.later:\n",
        "            if number in self.later:\n",
        _PARTS,
    ),
    Mutant(
        "that a rehearsal asks about those too whose turn comes later",
        "store/rehearsals_sql.py",
        "            missing = [a for a in part if a.id in loaded.later] + missing[len(part) :]\n",
        "            missing = missing[len(part) :]\n",
        _PARTS,
    ),
    Mutant(
        "that a file which cannot be removed stops no packing",
        "store/segments_sql.py",
        "        except InfrastructureError as e:\n            log.error(  # noqa: TRY400",
        "        except ZeroDivisionError as e:\n            log.error(  # noqa: TRY400",
        _STUCK,
    ),
    Mutant(
        "that a step of a job which waits in its transaction is not ended",
        "store/control_sql.py",
        '    "-c idle_in_transaction_session_timeout=600000"\n',
        '    ""\n',
        f"{_FROZEN}a_step_is_not_ended_by_its_roles_own_limit_of_idle_transactions",
    ),
    Mutant(
        "that a job whose step has lost the connection lets the others go on",
        "store/work_sql.py",
        "opened.enter_context(closing(connect(self.dsn))) if self.conn.closed else self.conn",
        "opened.enter_context(closing(self.conn)) if self.conn.closed else self.conn",
        _LOST,
    ),
    Mutant(
        "that a session without its connection is no more worked with",
        "store/work_sql.py",
        "            if self.conn.closed:\n                raise\n",
        "",
        _LOST,
    ),
    Mutant(
        "that one who asks for much leaves room for others",
        "api/entry.py",
        "            async with self._turns.of(caller.name):\n",
        "            if True:\n",
        "tests/integration/admin/test_turns.py::test_who_asks_for_much_that_takes_long_keeps_nobody_else_waiting",
    ),
    Mutant(
        "that nobody waits for a turn for long",
        "api/turns.py",
        "            async with asyncio.timeout(self._seconds):\n",
        "            async with asyncio.timeout(None):\n",
        f"{_TURNS}who_gets_no_turn_in_time_is_refused_and_has_taken_none",
    ),
    Mutant(
        "that few wait for their turn",
        "api/turns.py",
        "        if self._of[name] >= self._most + self._waiting:\n",
        "        if False:\n",
        f"{_TURNS}more_than_may_wait_are_refused_at_once",
    ),
    Mutant(
        "that a turn is given back",
        "api/turns.py",
        "                self._turns[name].release()\n",
        "                pass\n",
        f"{_TURNS}who_gets_no_turn_in_time_is_refused_and_has_taken_none",
    ),
    Mutant(
        "that what the control database refuses of an event holds up no others",
        "keep/keeper.py",
        "asyncio.to_thread(set_aside_sql.keep, session, *found)",
        "asyncio.to_thread(session.keep, *found)",
        f"{_ASIDE}a_service_sets_aside_what_is_refused_and_keeps_the_others",
    ),
    Mutant(
        "that the few events of a moment are kept in one transaction",
        "keep/keeper.py",
        "                        await self.pause(GATHER_SECONDS)\n",
        "                        pass\n",
        "tests/integration/admin/test_gathered.py",
    ),
    Mutant(
        "that nobody waits after many events",
        "keep/keeper.py",
        "return len(found.events) < _FEW and ",
        "return ",
        "tests/integration/admin/test_gathered.py",
    ),
    Mutant(
        "that nobody waits after large events",
        "keep/keeper.py",
        ' and sum(len(e.value or b"") for e in found.events) < _LITTLE_BYTES',
        "",
        "tests/integration/admin/test_gathered.py",
    ),
    Mutant(
        "that an event which an index of somebody's refuses is no repeat",
        "store/keeper_sql.py",
        "        ON CONFLICT ({_PLACE}) DO NOTHING\n",
        "        ON CONFLICT DO NOTHING\n",
        _REFUSED,
    ),
    Mutant(
        "that each event beside one which is refused is kept",
        "keep/set_aside_sql.py",
        "        if len(events) > 1:\n",
        "        if False:\n",
        _REFUSED,
    ),
    Mutant(
        "that what was counted of a slice which is refused is forgotten",
        "store/keeper_sql.py",
        "            self._facets = {}  # they have what was not kept\n",
        "",
        _REFUSED,
    ),
    Mutant(
        "that what was set aside is kept once it can be",
        "keep/set_aside_sql.py",
        "            _rows(session, _REMOVE, key)\n",
        "",
        _REFUSED,
    ),
)
