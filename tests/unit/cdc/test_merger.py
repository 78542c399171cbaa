"""The merger waits for notifications, also in a process with a thousand open files."""

import fcntl
import os
import resource
from collections.abc import Iterator

import pytest

from services.cdc.merger.merger import is_readable

#: `select.select` takes no higher one.
MAX = 1024


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * MAX)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_the_thousandth_open_file_is_waited_for_as_well() -> None:
    out, into = os.pipe()
    high = fcntl.fcntl(out, fcntl.F_DUPFD, MAX)
    try:
        assert high >= MAX
        assert not is_readable(high, 0.001)
        os.write(into, b"news")
        assert is_readable(high, 60)
    finally:
        for each in (out, into, high):
            os.close(each)
