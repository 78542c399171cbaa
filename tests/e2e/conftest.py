"""Fixtures of the tests of whole runs."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.fixtures.up import StartUp, Up


@pytest.fixture
def up(tmp_path: Path) -> Iterator[StartUp]:
    started: list[Up] = []

    def start(*options: str) -> Up:
        started.append(Up(tmp_path, *options))
        return started[-1]

    try:
        yield start
    finally:
        for each in started:
            for process in each.processes():
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            each.process.wait(30)
