"""Runs one thread for each source, so that a blocked one delays no other, and follows the registry."""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from time import monotonic
from typing import Final

from services.cdc.agent.connect_api import ConnectError
from services.cdc.agent.metrics import AgentMetrics
from services.cdc.agent.reconcile import SourceReconciler
from services.cdc.agent.source_sql import SourceError
from services.cdc.agent.source_state import Shown, State
from services.cdc.agent.source_state_sql import StateStore, StateStoreError, sources_in
from shared.postgres.source_dsns import SourceDsns
from shared.registry import Registry
from shared.registry.sources import Source

log = logging.getLogger(__name__)

_REGISTRY_SECONDS: Final = 1.0
#: Seconds between reports of a source that is not watched: `onramp sources list` treats older ones as stale.
_REPORT_SECONDS: Final = 10.0
#: States that are logged without an error.
_EXPECTED: Final = (State.STREAMING, State.STARTING, State.STANDBY)
_LOST: Final = (
    "the registry does not name it, and no change removed it: apply the registry's file again, or add the "
    "source and remove it"
)

#: Constructs the reconciler of a source from its name, its registry entry and its DSN.
MakeReconciler = Callable[[str, Source, str], SourceReconciler]


class _Watched:
    """A source that a thread of its own polls until it is stopped or removed."""

    def __init__(
        self, name: str, source: Source, reconciler: SourceReconciler, show: Callable[[Shown], None]
    ) -> None:
        self.source = source
        self._name = name
        self._reconciler = reconciler
        self._show = show
        self._removing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)
        self.shown: Shown | None = None
        self.poll_seconds = 1.0
        #: The DSN of the source.
        self.dsn = ""

    def start(self, poll_seconds: float) -> None:
        self.poll_seconds = poll_seconds
        self._thread.start()

    def said(self) -> dict[str, str]:
        """Return the state and its reason."""
        if self.shown is None:
            return {"state": State.STARTING, "reason": "it has not been polled yet"}
        return {"state": self.shown.state, "reason": self.shown.reason}

    def remove(self) -> None:
        """Start the removal, which takes several polls and then ends the thread."""
        self._removing = True

    def stop(self) -> None:
        self._stopping.set()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    @property
    def is_removing(self) -> bool:
        return self._removing

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._removing and self._remove():
                    break
                if not self._removing:
                    self._note(self._reconciler.reconcile())
            except Exception as error:
                log.exception("polling a source failed", extra={"source": self._name})
                self._note(Shown(state=State.UNREACHABLE, reason=f"the poll failed: {type(error).__name__}"))
            self._stopping.wait(self.poll_seconds)
        self._reconciler.close()

    def _remove(self) -> bool:
        try:
            is_gone = self._reconciler.remove()
        except (ConnectError, SourceError, StateStoreError) as error:
            self._note(Shown(state=State.UNREACHABLE, reason=f"it cannot be removed: {error}"))
            return False
        if is_gone:
            log.info("a source was removed: its slot and its offsets are gone", extra={"source": self._name})
        return is_gone

    def _note(self, shown: Shown) -> None:
        before, self.shown = self.shown, shown
        if before is None or before.news != shown.news:
            level = logging.INFO if shown.state in _EXPECTED else logging.ERROR
            log.log(
                level,
                "the state of a source changed",
                extra={"source": self._name, "state": shown.state, "reason": shown.reason},
            )
        self._show(shown)


class Watch:
    """Follows the registry: named sources are watched, removed sources are cleaned up."""

    def __init__(
        self,
        registry: Registry,
        databases: Mapping[str, str],
        make: MakeReconciler,
        metrics: AgentMetrics,
        *,
        poll_seconds: float,
        dsns: SourceDsns | None = None,
    ) -> None:
        self._registry = registry
        self._dsns = dsns or SourceDsns()
        self._databases = databases
        self._make = make
        self._metrics = metrics
        self._poll_seconds = poll_seconds
        self._watched: dict[str, _Watched] = {}
        self._wrong: dict[str, str] = {}
        self._report_at: dict[str, float] = {}
        self._has_followed = False
        #: Databases whose stored sources were not read yet, each with the last error.
        self._unasked = dict.fromkeys(databases, "")
        self._stopping = threading.Event()

    def run(self) -> None:
        """Follow the registry until `stop`."""
        while not self._stopping.is_set():
            self.follow()
            self._stopping.wait(_REGISTRY_SECONDS)
            self._registry.refresh()
        for watched in self._watched.values():
            watched.stop()
        for watched in self._watched.values():
            watched.join(seconds=10)

    def stop(self) -> None:
        """Stop the threads: sources stay as they are, and Kafka Connect continues."""
        self._stopping.set()

    def states(self) -> dict[str, dict[str, str]]:
        """Return each source's state and reason, for /readyz."""
        wrong = {name: {"state": State.UNREACHABLE, "reason": why} for name, why in self._wrong.items()}
        return {name: watched.said() for name, watched in list(self._watched.items())} | wrong

    @property
    def is_ready(self) -> bool:
        """Return whether the registry was read and each of its sources is streaming or on standby.

        A rollout waits for a standby before it ends the other agent.
        """
        states = [said["state"] for said in self.states().values()]
        return self._has_followed and all(state in (State.STREAMING, State.STANDBY) for state in states)

    def follow(self) -> None:
        """Watch the sources that the registry names, and remove those that a registry change removed.

        A source that is missing without such a change stays: the registry's topic may be lost.
        """
        if not self._registry.is_read:
            return
        named = self._registry.snapshot().sources
        lost = {name for name, why in self._wrong.items() if why == _LOST and name not in named}
        removed = {name for name in lost if self._registry.has_removed("sources", name)}
        if removed:
            self._unasked = dict.fromkeys(self._databases, "")
        still = {name for name, why in self._wrong.items() if why != _LOST and name in named}
        self._wrong = {name: self._wrong[name] for name in still | (lost - removed)}
        self._remove_unnamed(named)
        for name, watched in list(self._watched.items()):
            if watched.has_ended:
                del self._watched[name]
                self._metrics.forget(name)
            elif name not in named:
                self._remove(name, watched)
            elif not watched.is_removing and self._is_another(named[name], watched):
                watched.stop()  # the source starts again with its new entry once the thread has ended
        for name, source in named.items():
            if name not in self._watched:
                self._begin(name, source)
        self._has_followed = True

    def _is_another(self, source: Source, watched: _Watched) -> bool:
        """Return whether the registry's entry or the DSN has changed."""
        return source != watched.source or self._dsns.find(source.dsn_env) not in ("", watched.dsn)

    def _remove(self, name: str, watched: _Watched) -> None:
        if self._registry.has_removed("sources", name):
            watched.remove()
        elif not watched.is_removing:
            self._refuse(name, watched.source, _LOST)

    def _begin(self, name: str, source: Source) -> None:
        dsn = self._dsns.find(source.dsn_env)
        if not dsn:
            self._refuse(name, source, f"{source.dsn_env} is not set: give the agent the source's DSN in it")
            return
        if source.database is not None and source.database not in self._databases:
            self._refuse(
                name, source, f"no database {source.database} is configured (ONRAMP_WRITER_DATABASES)"
            )
            return
        self._wrong.pop(name, None)

        def show(shown: Shown) -> None:
            self._metrics.show(name, shown, source.wal_alarm_bytes)

        watched = _Watched(name, source, self._make(name, source, dsn), show)
        watched.dsn = dsn
        self._watched[name] = watched
        watched.start(self._poll_seconds)

    def _refuse(self, name: str, source: Source, why: str) -> None:
        is_news = self._wrong.get(name) != why
        if is_news:
            log.error("cannot watch a source", extra={"source": name, "reason": why})
        self._wrong[name] = why
        if is_news or monotonic() >= self._report_at.get(name, 0):
            self._report(name, source, why)

    def _report(self, name: str, source: Source, why: str) -> None:
        """Report a source that is not watched in the database that `onramp sources list` reads."""
        self._report_at[name] = monotonic() + _REPORT_SECONDS
        dsns = self._databases
        dsn = dsns.get(source.database or "") or next(iter(dsns.values()), "")
        try:
            with closing(StateStore(name, source.dsn_env, dsn)) as store:
                if store.watch():
                    store.read()
                    store.show(Shown(state=State.UNREACHABLE, reason=why))
        except StateStoreError as error:
            log.warning("cannot report the state of a source", extra={"source": name, "reason": str(error)})

    def _remove_unnamed(self, named: Mapping[str, Source]) -> None:
        """Remove sources that were removed while no agent ran; an unreachable database is retried later."""
        for database, said in list(self._unasked.items()):
            try:
                stored_sources = sources_in(self._databases[database])
            except StateStoreError as error:
                if str(error) != said:
                    extra = {"database": database, "reason": str(error)}
                    log.warning("cannot read the stored sources of a database; retrying", extra=extra)
                self._unasked[database] = str(error)
                continue
            del self._unasked[database]
            for name, env in stored_sources.items():
                if name in named or name in self._watched:
                    continue
                gone = Source(dsn_env=env, schemas=("unknown",), publish="unknown", database=database)
                if not self._registry.has_removed("sources", name):
                    self._refuse(name, gone, _LOST)
                elif source_dsn := self._dsns.find(env):
                    watched = _Watched(name, gone, self._make(name, gone, source_dsn), lambda _: None)
                    watched.remove()
                    self._watched[name] = watched
                    watched.start(self._poll_seconds)
