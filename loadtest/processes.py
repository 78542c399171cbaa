"""What a process tree costs: CPU seconds by kind, and memory as PSS (shared pages counted once)."""

from collections import Counter
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Cost:
    """CPU seconds and PSS in MiB, by kind of process: java, python, postgres."""

    cpu: dict[str, float]
    pss: dict[str, float]

    def since(self, before: "Cost") -> dict[str, float]:
        """CPU seconds spent after `before`."""
        return {kind: round(self.cpu[kind] - before.cpu.get(kind, 0.0), 1) for kind in self.cpu}


def cost(*roots: int) -> Cost:
    """The cost, so far, of the trees under `roots`; ended children count if their parent waited."""
    cpu: Counter[str] = Counter()
    pss: Counter[str] = Counter()
    for process in {p for root in roots for p in _tree(root)}:
        try:
            times, kind = process.cpu_times(), _kind(process.name())
            cpu[kind] += times.user + times.system + times.children_user + times.children_system
            pss[kind] += process.memory_full_info().pss / 2**20
        except psutil.NoSuchProcess:
            continue
    return Cost(dict(cpu), {kind: round(mib, 1) for kind, mib in pss.items()})


def _tree(root: int) -> list[psutil.Process]:
    process = psutil.Process(root)
    return [process, *process.children(recursive=True)]


def _kind(name: str) -> str:
    return next((kind for kind in ("java", "python", "postgres") if name.startswith(kind)), name)
