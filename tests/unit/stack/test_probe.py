"""The probe is patient with a gateway that starts, and ends with one that has ended."""

from collections.abc import Iterator

import pytest

from shared.wire import PROBE_EVENT
from stack.errors import StackError, UnavailableError
from stack.probe import post_probe
from tests.fixtures.raw_server import Worst, page, problem, results, serving


@pytest.fixture
def worst() -> Iterator[Worst]:
    with serving() as server:
        yield server


def test_a_probe_is_sent_until_it_is_accepted(worst: Worst) -> None:
    worst.first(page(502), problem(503))
    event_id = post_probe(worst.url, "key", lambda: False)
    assert worst.ids == [[event_id]] * 3
    assert PROBE_EVENT.encode() in worst.asked[0].lines[0]
    assert worst.asked[0].headers["authorization"] == "Bearer key"


def test_giving_up_ends_the_patience(worst: Worst) -> None:
    worst.script = lambda _: problem(503)
    with pytest.raises(UnavailableError, match="answered 503"):
        post_probe(worst.url, "key", lambda: len(worst.asked) >= 2)


def test_a_refusal_is_told(worst: Worst) -> None:
    worst.script = lambda asked: results(asked, **{asked.ids[0]: "422 bad_envelope"})
    with pytest.raises(StackError, match="bad_envelope"):
        post_probe(worst.url, "key", lambda: False)
