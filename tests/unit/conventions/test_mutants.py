"""The lists of `make mutants` fit the code: the text that each mutant replaces and its tests are there."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.mutants.all import AREAS, CORE
from tests.mutants.machine import Mutant, red_test
from tests.unit.conventions.tree import ROOT, report, text_of


def faults(mutant: Mutant) -> Iterator[str]:
    file = Path(mutant.file)
    if not (ROOT / file).is_file():
        yield f"{file}: there is no such file: move the mutant along"
    elif mutant.old not in text_of(file):
        yield f"{file}: its text has changed: change the mutant too, or it tests nothing"
    for test in mutant.tests.split():
        path, _, name = test.partition("::")
        function = name.partition("[")[0].rpartition("::")[2]
        if not (ROOT / path).exists() or (name and f"def {function}(" not in text_of(Path(path))):
            yield f"{test}: there is no such test"


def test_every_mutant_finds_its_text_and_its_tests() -> None:
    offenders = [
        f"tests/mutants/{area}.py: {mutant.removes!r}: {fault}"
        for area, mutants in AREAS.items()
        for mutant in mutants
        for fault in faults(mutant)
    ]
    assert offenders == [], report(offenders)


def test_no_file_of_mutants_is_left_out() -> None:
    files = {file.stem for file in (ROOT / "tests/mutants").glob("*.py")}
    assert files - {"__init__", "__main__", "all", "machine"} == set(AREAS)


def test_a_mutant_that_no_longer_fits_is_noticed() -> None:
    test = "tests/unit/conventions/test_mutants.py"
    fits = Mutant(
        "", "tests/mutants/machine.py", "class Mutant", "", f"{test}::test_no_file_of_mutants_is_left_out"
    )
    stale = [
        replace(fits, file="tests/mutants/gone.py"),
        replace(fits, old="class Gone"),
        replace(fits, tests="tests/unit/gone.py"),
        replace(fits, tests=f"{test}::test_gone"),
    ]
    assert [len(list(faults(mutant))) for mutant in (fits, *stale)] == [0, 1, 1, 1, 1]


def test_the_test_that_noticed_is_named() -> None:
    summary = "ERROR    services.a:a.py:9 a log line\nFAILED tests/unit/test_a.py::test_b[a b] - E: c - d"
    assert red_test(summary) == "tests/unit/test_a.py::test_b[a b]"
    assert red_test("ERROR tests/unit/test_a.py::test_b") == "tests/unit/test_a.py::test_b"
    assert red_test("+++ Timeout +++") == "a timeout"


def test_the_twenty_that_make_test_must_notice_are_listed() -> None:
    listed = {area: {mutant.removes for mutant in mutants} for area, mutants in AREAS.items()}
    assert [name for area, names in CORE.items() for name in names if name not in listed[area]] == []
    assert sum(map(len, CORE.values())) == 20
