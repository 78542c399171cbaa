"""A thread for each source, so that one that hangs holds up no other; they follow the registry."""

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
#: Between two reports of a source that is not followed: `onramp sources list` takes an older one for silence.
_REPORT_SECONDS: Final = 10.0
#: States that are no news for whoever is on call.
_EXPECTED: Final = (State.STREAMING, State.STARTING, State.STANDBY)
_LOST: Final = (
    "the registry does not name it, and no change removed it: apply the registry's file again, or add the "
    "source and remove it"
)

#: Constructs the look at a source: of its name, what the registry says of it, and its DSN.
MakeReconciler = Callable[[str, Source, str], SourceReconciler]


class _Watched:
    """A source that is looked at in a thread of its own, until it is stopped or removed."""

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
        #: By which it is reached.
        self.dsn = ""

    def start(self, poll_seconds: float) -> None:
        self.poll_seconds = poll_seconds
        self._thread.start()

    def said(self) -> dict[str, str]:
        """Return its state and the reason, for people."""
        if self.shown is None:
            return {"state": State.STARTING, "reason": "it was not looked at yet"}
        return {"state": self.shown.state, "reason": self.shown.reason}

    def remove(self) -> None:
        """Have it removed, which takes some looks, and then end."""
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
                log.exception("a look at a source failed", extra={"source": self._name})
                self._note(Shown(state=State.UNREACHABLE, reason=f"a look failed: {type(error).__name__}"))
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
                "a source is in another state",
                extra={"source": self._name, "state": shown.state, "reason": shown.reason},
            )
        self._show(shown)


class Watch:
    """Follows the registry: sources that are named are watched, others removed."""

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
        #: Databases that were not yet asked for sources that nobody names any more, and why.
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
        """End: sources are left as they are, Kafka Connect goes on."""
        self._stopping.set()

    def states(self) -> dict[str, dict[str, str]]:
        """Return each source's state and reason, for /readyz."""
        wrong = {name: {"state": State.UNREACHABLE, "reason": why} for name, why in self._wrong.items()}
        return {name: watched.said() for name, watched in list(self._watched.items())} | wrong

    @property
    def is_ready(self) -> bool:
        """Whether the registry was read and all its sources flow, or another agent watches over them.

        A rollout waits for a standby before it ends the other agent.
        """
        states = [said["state"] for said in self.states().values()]
        return self._has_followed and all(state in (State.STREAMING, State.STANDBY) for state in states)

    def follow(self) -> None:
        """Watch what the registry names now, and have removed what a change took out of it.

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
                watched.stop()  # it begins again, as it is named now, when it has ended
        for name, source in named.items():
            if name not in self._watched:
                self._begin(name, source)
        self._has_followed = True

    def _is_another(self, source: Source, watched: _Watched) -> bool:
        """Whether the registry's entry, or the DSN, is another one now."""
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
            log.error("a source cannot be followed", extra={"source": name, "reason": why})
        self._wrong[name] = why
        if is_news or monotonic() >= self._report_at.get(name, 0):
            self._report(name, source, why)

    def _report(self, name: str, source: Source, why: str) -> None:
        """Report a source that is not followed where `onramp sources list` reads."""
        self._report_at[name] = monotonic() + _REPORT_SECONDS
        dsns = self._databases
        dsn = dsns.get(source.database or "") or next(iter(dsns.values()), "")
        try:
            with closing(StateStore(name, source.dsn_env, dsn)) as store:
                if store.watch():
                    store.read()
                    store.show(Shown(state=State.UNREACHABLE, reason=why))
        except StateStoreError as error:
            log.warning("a source cannot be reported", extra={"source": name, "reason": str(error)})

    def _remove_unnamed(self, named: Mapping[str, Source]) -> None:
        """Remove sources that were removed while no agent ran; a database that is out is asked later."""
        for database, said in list(self._unasked.items()):
            try:
                stored_sources = sources_in(self._databases[database])
            except StateStoreError as error:
                if str(error) != said:
                    extra = {"database": database, "reason": str(error)}
                    log.warning("a database is asked later which sources it has", extra=extra)
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
