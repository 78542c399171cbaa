"""`onramp up --source-demo`: another database's tables are tables here, and what it says to try works."""

import re
import shlex
import subprocess

from loadtest.same_rows import differing
from stack.source_demo import DATABASE, NAME, SCHEMA, TABLES
from tests.fixtures.up import StartUp
from tests.fixtures.writer import eventually, rows

_FLIGHTS = 336_776


def printed_by(command: str) -> str:
    return subprocess.run(shlex.split(command), check=True, capture_output=True, text=True).stdout


def test_the_demos_source_is_captured_and_what_is_printed_to_try_works(up: StartUp) -> None:
    run = up("--events", "0", "--source-demo")
    run.until("Ctrl-C stops everything")
    source = run.until(rf"'(postgresql://\S+/{DATABASE})'").group(1)
    warehouse = run.until(r"Postgres  (\S+)").group(1)

    def is_equal(table: str) -> bool:
        return differing(source, f"{SCHEMA}.{table}", warehouse, f"{NAME}.{table}") == (0, 0)

    for table in reversed(TABLES):
        eventually(lambda: is_equal(table), 400)  # noqa: B023 - called within the turn
    assert rows(warehouse, f"SELECT count(*) FROM {NAME}.flights") == [(_FLIGHTS,)]  # noqa: S608

    update, select = re.findall(r"^  (\S*psql '\S+' -c \"[^\"]+airlines[^\"]+\")", run.text, re.MULTILINE)
    assert "UPDATE 1" in printed_by(update)
    eventually(lambda: "Ours" in printed_by(select), 60)
