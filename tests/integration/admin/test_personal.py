"""Personal fields: the admin service hides even their shape, in every view."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from services.admin.jobs.job_session import JobSession
from shared.registry import Snapshot
from stack import services
from stack.registry import OwnRegistry
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.running_part import started
from tests.fixtures.writer import eventually, execute
from tests.integration.admin.admin_service import DIGESTS
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.job_bench import EVERY, Desk
from tests.integration.admin.operator_service import EVENTS, OPERATORS, Guarded, registry

#: Each type calls another field personal.
TYPES = {"order_made": {"personal": ["/who/mail"]}, "pay_made": {"personal": ["/card"]}}
VALUE = b'{"payload":{"who":{"mail":"ann@example.org","age":42},"card":"4111"}}'
SHOWN: dict[str | None, Any] = {
    "order_made": {"who": {"mail": "***", "age": "99"}, "card": "9999"},
    "pay_made": {"who": {"mail": "aaa@aaaaaaa.aaa", "age": "99"}, "card": "***"},
    # of types that nobody knows, what any type calls so
    "order_lost": {"who": {"mail": "***", "age": "99"}, "card": "***"},
    None: {"who": {"mail": "***", "age": "99"}, "card": "***"},
}


@pytest.fixture(scope="module")
def guarded(
    own_topics: HasBootstrap, postgres: HasDsn, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    own = OwnRegistry(own_topics.bootstrap, registry(*OPERATORS) | {"event_types": TYPES})
    log = tmp_path_factory.mktemp("personal") / "admin.log"
    with database_beside(postgres.dsn, "template0") as dsn:
        service = services.admin(bootstrap=own_topics.bootstrap, dsn=dsn, log=log, env=own.env)
        with started(service):
            execute(dsn, EVENTS)
            execute(dsn, f"UPDATE onramp_admin.bytes SET value = $${VALUE.decode()}$$; {DIGESTS}")  # noqa: S608
            yield Guarded(service, dsn, own)


def test_an_event_and_its_group_hide_what_its_type_calls_personal(guarded: Guarded) -> None:
    vera = guarded.of("vera")
    shapes = {
        each["event_name"]: vera.get(f"/v1/events/{each['id']}").json()["shape"]["payload"]
        for each in vera.events(code="planted")
    }
    assert shapes == SHOWN
    samples = {
        each["cause"]["event_name"]: vera.get(f"/v1/groups/{each['id']}").json()["samples"]
        for each in vera.groups(code="planted")
    }
    assert samples == {name: [{"payload": shown}] * 4 for name, shown in SHOWN.items()}


def test_change_of_a_types_personal_fields_applies_without_a_restart(guarded: Guarded) -> None:
    assert guarded.registry is not None
    [event] = [
        n for (n,) in guarded.rows("SELECT min(id) FROM onramp_admin.events WHERE event_name = 'pay_made'")
    ]

    def shape() -> Any:
        return guarded.of("vera").get(f"/v1/events/{event}").json()["shape"]["payload"]

    changed = TYPES | {"pay_made": {"personal": ["/who"]}}
    guarded.registry.put(registry(*OPERATORS) | {"event_types": changed})
    assert eventually(lambda: shape() == {"who": "***", "card": "9999"})
    guarded.registry.put(registry(*OPERATORS) | {"event_types": TYPES})
    assert eventually(lambda: shape() == SHOWN["pay_made"])


def test_the_samples_of_a_rehearsal_hide_what_is_personal(desk: Desk) -> None:
    known = Snapshot.model_validate({"event_types": {desk.stage.name: {"personal": ["/a"]}}})
    desk.session = JobSession(desk.session.conn, desk.session.databases, None, lambda: known)
    job = desk.start("rehearse")
    desk.work(1)
    desk.answer("landed", *EVERY)
    desk.work(1)
    samples = orjson.loads(desk.job(job).samples or "")
    assert [each["edited"]["payload"] for each in samples] == [{"a": "***"}] * len(EVERY)
