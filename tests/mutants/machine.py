# ruff: noqa: T201 - a program for people
"""`make mutants`: removes one protection at a time and expects red; ARGS="merger --only order" runs some.

Works on a copy, so the tree that others use stays as it is.  A mutant that survives means
that a promise has no test; one whose text is no longer there means that this list is old;
and red counts only for tests that are green without a mutant, which is seen first.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
COPIED: Final = ("services", "shared", "stack", "tests", "clients", "docs", "loadtest", "pyproject.toml")
#: Of what the tests wait for, most comes at once or, without a protection, never.
PATIENCE: Final = "0.3"
_GREEN, _RED = 0, 1


@dataclass(frozen=True)
class Mutant:
    """A protection, how it is removed, and the tests (pytest's arguments) that must notice."""

    removes: str
    #: Relative to the project's folder.
    file: str
    old: str
    new: str
    tests: str


def run(areas: Mapping[str, Sequence[Mutant]], core: Mapping[str, Sequence[str]]) -> None:
    """Run the mutants that the command line names; exit 1 if one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"one or more of {', '.join(areas)} (all)")
    parser.add_argument("--only", action="append", help="those whose protection contains this text")
    parser.add_argument(
        "--core", action="store_true", help="twenty of all areas, by the tests of `make test` alone"
    )
    parser.add_argument("--at-once", type=int, default=2, help="so many at a time (2)")
    given = parser.parse_args()
    if unknown := set(given.areas) - set(areas):
        parser.error(f"no such area: {', '.join(sorted(unknown))}")
    mutants = [
        mutant
        for area in given.areas or areas
        for mutant in areas[area]
        if not given.only or any(text in mutant.removes for text in given.only)
        if not given.core or mutant.removes in core.get(area, ())
    ]
    marks = "not full" if given.core else ""
    for mutant in mutants:
        _see_text(mutant)
    with tempfile.TemporaryDirectory(prefix="onramp-mutants-") as copies:
        _see_green(mutants, Path(copies) / "green", marks)
        with ThreadPoolExecutor(given.at_once) as pool:
            survived = list(
                pool.map(
                    lambda at: _survives(mutants[at], Path(copies) / str(at), marks), range(len(mutants))
                )
            )
    survivors = [mutant.removes for mutant, did in zip(mutants, survived, strict=True) if did]
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants were noticed")
    if survivors:
        sys.exit("survivors: " + ", ".join(survivors))


def _see_text(mutant: Mutant) -> None:
    if mutant.old not in (ROOT / mutant.file).read_text("utf-8"):
        sys.exit(f"{mutant.file} no longer has the text of the mutant without {mutant.removes}")


def _see_green(mutants: Sequence[Mutant], copy: Path, marks: str) -> None:
    """A test that fails without a mutant proves nothing about mutants."""
    _copy_tree(copy)
    done = _pytest(copy, " ".join(sorted({test for m in mutants for test in m.tests.split()})), marks)
    if done.returncode != _GREEN:
        sys.exit(f"the tests are red without any mutant:\n{done.stdout.decode()[-5000:]}")


def _survives(mutant: Mutant, copy: Path, marks: str) -> bool:
    _copy_tree(copy)
    target = copy / mutant.file
    target.write_text(target.read_text("utf-8").replace(mutant.old, mutant.new), "utf-8")
    done = _pytest(copy, mutant.tests, marks)
    noticed = done.returncode == _RED
    by = f"  by {red_test(done.stdout.decode())}" if noticed else ""
    print(f"{'noticed ' if noticed else 'SURVIVED'}  without {mutant.removes}{by}", flush=True)
    if done.returncode not in {_GREEN, _RED}:
        print(done.stdout.decode()[-2000:], done.stderr.decode()[-2000:])
    shutil.rmtree(copy)
    return not noticed


def red_test(output: str) -> str:
    """Return the failed test of pytest's summary; a test that hangs ends pytest before its summary."""
    found = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - |$)", output, re.MULTILINE)
    return found[1] if found else "a timeout"


def _copy_tree(copy: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, copy / name)


def _pytest(copy: Path, tests: str, marks: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", marks]
    # What hangs without its protection may hang in C, where no signal reaches Python: a thread ends it.
    command += ["-o", "timeout_method=thread", *tests.split()]
    environment = {"ONRAMP_TEST_PATIENCE": PATIENCE, **os.environ, "PYTHONPATH": str(copy)}
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False)
