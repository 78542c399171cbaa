"""The protections of what the gateway shows of itself."""

from functools import partial
from typing import Final

from tests.mutants.machine import Mutant

_WATCH: Final = "tests/unit/ingest/test_registry_watch.py::test_"
_LIMITS: Final = partial(
    Mutant, tests=f"{_WATCH}a_types_limits_are_shown_and_those_that_are_gone_are_0", file="observe/metrics.py"
)

_BEGINS: Final = "tests/unit/ingest/test_tallies.py::test_what_begins_is_at_0_on_one_page_first"

SEEN: Final = (
    Mutant(
        "0 on one page first",
        "observe/tallies.py",
        "self._seen_since.setdefault(labels, time.monotonic()) < page",
        "True",
        _BEGINS,
    ),
    Mutant(
        "a page that began before the series",
        "observe/tallies.py",
        "time.monotonic()) < page:",
        "-1.0) < page:",
        _BEGINS,
    ),
    Mutant(
        "what new series counted until then", "observe/tallies.py", "kept[labels] = count", "pass", _BEGINS
    ),
    Mutant(
        "the pages of other workers",
        "observe/page.py",
        "return file.stat().st_mtime if (file := self._file()) else self._began",
        "return self._began",
        "tests/unit/ingest/test_tallies.py::test_a_worker_knows_of_the_others_pages",
    ),
    Mutant(
        "0 before syslog's first message",
        "syslog/delivery.py",
        "        SYSLOG_MESSAGES.labels(transport, outcome)\n\n",
        "        pass\n\n",
        "tests/unit/ingest/test_syslog_limits.py::test_every_outcome_is_shown_at_0_before_the_first_message",
    ),
    Mutant(
        "a count of public connections alone",
        "http/admin_port.py",
        ", is_public=False",
        "",
        "tests/unit/ingest/test_tallies.py::test_connections_of_the_port_for_operators_are_not_counted_with_the_"
        "public_ones",
    ),
    Mutant(
        "a bound on labels",
        "observe/metrics.py",
        "if len(self._types) >= _MOST_TYPES:",
        "if False:",
        "tests/unit/ingest/test_tallies.py::test_10_000_names_that_were_accepted_have_500_labels_and_each_is_counted",
    ),
    _LIMITS(
        "a type's limit that is gone",
        old="for limit, name in self._limited | found.keys():",
        new="for limit, name in found.keys():",
    ),
    _LIMITS("a type's limit that was shown", old="self._limited |= found.keys()", new="pass"),
)
