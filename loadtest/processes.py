"""The cost of a process tree: CPU seconds by kind, and memory as PSS (shared pages counted once)."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Cost:
    """CPU seconds and PSS in MiB, by kind of process: java, python, postgres."""

    cpu: dict[str, float]
    pss: dict[str, float]

    def since(self, before: "Cost") -> dict[str, float]:
        """Return CPU seconds spent after `before`."""
        return {kind: round(self.cpu[kind] - before.cpu.get(kind, 0.0), 1) for kind in self.cpu}


def cost(*roots: int) -> Cost:
    """Return the cost, so far, of the trees under `roots`; ended children count if their parent waited."""
    processes = {p for root in roots for p in _tree(psutil.Process(root))}
    return Cost(_cpu(processes), _pss(processes))


def cpu_of(head: psutil.Process) -> dict[str, float]:
    """Return CPU seconds, so far, of one family by kind."""
    return _cpu(_tree(head))


def pss_of(head: psutil.Process) -> dict[str, float]:
    """Return PSS in MiB of one family by kind; reading it costs the kernel milliseconds per process."""
    return _pss(_tree(head))


def _cpu(processes: Iterable[psutil.Process]) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds[_kind(process.name())] += (
                times.user + times.system + times.children_user + times.children_system
            )
    return dict(seconds)


def _pss(processes: Iterable[psutil.Process]) -> dict[str, float]:
    mib: dict[str, float] = defaultdict(float)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            mib[_kind(process.name())] += process.memory_full_info().pss / 2**20
    return {kind: round(amount, 1) for kind, amount in mib.items()}


def _tree(head: psutil.Process) -> list[psutil.Process]:
    return [head, *head.children(recursive=True)]


def _kind(name: str) -> str:
    return next((kind for kind in ("java", "python", "postgres") if name.startswith(kind)), name)
