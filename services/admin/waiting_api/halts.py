"""The routes of halts: databases and partitions that the writer does not continue without a decision."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from fastapi import FastAPI

from services.admin.api.operators import Caller
from services.admin.api.problems import not_stored
from services.admin.api.queries import State, StateIfGiven
from services.admin.api.rights import Asking
from services.admin.api.stale import require_current
from services.admin.store.control_sql import transaction
from services.admin.store.read_sql import last_act, record_act
from services.admin.waiting_api.each_database import Unreachable, each_database
from services.admin.waiting_api.schemas import DatabasePath, HaltDecision, PartitionDecision, tag_of
from services.ops.kafka_logs import KafkaLogs
from services.ops.operate import halts_sql, kafka_halts
from services.ops.settled.reader import SettledReader
from shared.errors import NOT_WAITING, WAITING_CHANGED, UserError
from shared.kafka_security import Brokers

#: The ways in which a halted database can continue: effect and cost.
_WAYS: Final = (
    {
        "how": "recheck",
        "effect": "The right data are back: the writer compares the ledger again, and lands what waits.",
        "cost": "None. The database is halted again if its ledger is still behind.",
    },
    {
        "how": "refill",
        "effect": "The writer lands what is missing again, from Kafka; landed events are duplicates by key.",
        "cost": "Events that Kafka has deleted stay missing; a table without a key gets events twice.",
    },
    {
        "how": "skip",
        "effect": "The writer continues with the next events.",
        "cost": "The missing events are lost in this database, and the audit reports them.",
    },
)
#: The ways in which a halted partition can continue.
_PARTITION_WAYS: Final = (
    {
        "how": kafka_halts.ACCEPT,
        "effect": "The writer continues with the events that Kafka has, from that point.",
        "cost": "Lost events stay lost. After a truncated log, a table without a key gets events twice.",
    },
)


class Halts:
    """Halted databases and partitions, and the decisions about them; for routes and pages."""

    def __init__(
        self,
        dsn: str,
        databases: Mapping[str, str],
        brokers: Brokers,
        settled: SettledReader,
        max_age_seconds: float = 0.0,
    ) -> None:
        """`dsn`: the control database, with the audit log; `max_age_seconds`: of the list of partitions."""
        self._dsn = dsn
        self._databases = databases
        self._brokers = brokers
        self._settled = settled
        self._max_age_s = max_age_seconds

    def databases(self, asking: Caller) -> list[dict[str, Any]]:
        """Return the state of each database; reasons, which name topics, only for a reader of all events."""
        found = each_database(self._databases, halts_sql.halt_of)
        return [_state(name, halt, is_whole=asking.only is None) for name, halt in found.items()]

    def partitions(self) -> list[dict[str, Any]]:
        """Return the halted partitions.  Raises `InfrastructureError`.

        Kafka is not read if the service has read the log a moment ago.
        """
        is_fresh = self._settled.age_seconds() < self._max_age_s
        log = self._settled.halt_log() if is_fresh else asyncio.run(self._halt_log())
        return [
            halt._asdict() | {"etag": tag_of(*halt), "ways": list(_PARTITION_WAYS)} for halt in log.halts()
        ]

    def resolve_database(self, name: str, said: HaltDecision, state: State, asking: Caller) -> dict[str, Any]:
        """Request how a halted database continues, or check whether the request is possible.

        Raises:
            UserError: NOT_STORED, IF_MATCH_MISSING, WAITING_CHANGED or NOT_WAITING; nothing was changed.
            InfrastructureError: the database or the control database cannot be reached.
        """
        state.require_given()
        if name not in self._databases:
            raise not_stored("database")
        halt = halts_sql.halt_of(name, self._databases[name])
        if halt is None:
            raise UserError(NOT_WAITING, f"database {name} is not halted")

        def end(actor: str) -> bool:
            return halts_sql.resolve(name, self._databases[name], said.how, by=actor, of=halt)

        self._decide(f"database {name}", tag_of(*halt), said, state, asking, end)
        return {"database": name, "resolution": said.how, "dry_run": said.dry_run}

    def resolve_partition(self, said: PartitionDecision, state: State, asking: Caller) -> dict[str, Any]:
        """Request how a halted partition continues; raises as `resolve_database` does."""
        state.require_given()
        found = {halt.partition: halt for halt in asyncio.run(self._halt_log()).halts()}
        halt = found.get(said.partition)
        if halt is None:
            raise UserError(NOT_WAITING, "the partition is not halted")

        async def answer(actor: str) -> bool:
            log = await self._halt_log()
            return await kafka_halts.answer(
                self._brokers, said.partition, said.how, by=actor, of=halt, log=log
            )

        def end(actor: str) -> bool:
            try:
                return asyncio.run(answer(actor))
            finally:
                self._settled.expire()  # the next list shows the decision

        self._decide(f"partition {said.partition}", tag_of(*halt), said, state, asking, end)
        return {"partition": said.partition, "resolution": said.how, "dry_run": said.dry_run}

    async def _halt_log(self) -> kafka_halts.HaltLog:
        """Return the halts as of now, of which only new entries are read.  Raises `InfrastructureError`."""
        async with KafkaLogs(self._brokers) as logs:
            await self._settled.refresh(logs)
        return self._settled.halt_log()

    def _decide(  # noqa: PLR0917 - each is one part of the decision
        self,
        subject: str,
        tag: str,
        said: HaltDecision | PartitionDecision,
        state: State,
        asking: Caller,
        end: Callable[[str], bool],
    ) -> None:
        actor = asking.acting(said.actor)
        with transaction(self._dsn) as conn:
            require_current(state, tag, WAITING_CHANGED, last_act(conn, subject))
            record_act(conn, actor, f"resolve halt by {said.how}", subject, said.reason)
            if said.dry_run:
                conn.rollback()
            elif not end(actor):
                conn.rollback()
                raise UserError(WAITING_CHANGED, f"the halt of {subject} has just changed")


def add_halts(app: FastAPI, halts: Halts) -> None:
    """Add the routes."""

    @app.get("/v1/databases")
    def list_databases(asking: Asking) -> dict[str, Any]:
        """Every database: whether it answers and whether it is halted, with each way on and its cost."""
        return {"databases": halts.databases(asking)}

    @app.post("/v1/databases/{name}/resolve")
    def resolve_halt(
        name: DatabasePath, said: HaltDecision, state: StateIfGiven, asking: Asking
    ) -> dict[str, Any]:
        """Request how a halted database continues; `If-Match` is the halt's `etag`."""
        return halts.resolve_database(name, said, state, asking)

    @app.get("/v1/partitions")
    def list_partitions() -> dict[str, Any]:
        """Halted partitions with their reasons, and the ways in which each can continue."""
        return {"partitions": halts.partitions()}

    @app.post("/v1/partitions/resolve")
    def resolve_partition(said: PartitionDecision, state: StateIfGiven, asking: Asking) -> dict[str, Any]:
        """Request how a halted partition continues; `If-Match` is the halt's `etag`."""
        return halts.resolve_partition(said, state, asking)


def _state(name: str, found: halts_sql.Halt | Unreachable | None, *, is_whole: bool) -> dict[str, Any]:
    state: dict[str, Any] = {"database": name, "state": "answers", "reason": None, "since": None}
    state |= {"resolution": None, "etag": None, "ways": []}
    if isinstance(found, Unreachable):
        return state | {"state": "unreachable", "reason": found.detail}
    if found is None:
        return state
    return state | {
        "state": "halted",
        "reason": found.reason if is_whole else None,
        "since": found.since.isoformat(),
        "resolution": found.resolution,
        "etag": tag_of(*found),
        "ways": list(_WAYS),
    }
