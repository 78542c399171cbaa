"""The waiting report lists waiting events with start, reason, and the command that ends the waiting."""

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg2
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from typer.testing import CliRunner

from services.cli.app import app
from services.writer.observe.status_server import StatusServer
from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import eventually


def _onramp(*arguments: str) -> Any:
    said = CliRunner().invoke(app, [*arguments])
    assert said.exception is None or isinstance(said.exception, SystemExit), said.output
    return said


@contextmanager
def _answering(writer: Inline) -> Iterator[str]:
    """The address at which a writer in this process answers."""
    server = StatusServer(writer.job._status, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()


def _waiting(scene: Scene, writer: str, *, is_whole: bool = True) -> dict[str, Any]:
    """`errors waiting --json`, of which the topics and databases of other scenes are left out."""
    where = ["--kafka", scene.bootstrap, "--dsn", scene.dsn, "--database", scene.database]
    said = _onramp("errors", "waiting", "--json", "--writer", writer, *where)
    found: dict[str, Any] = json.loads(said.stdout)
    others = [d for d in found["databases"] if d["state"] == "not configured"]
    assert said.exit_code == (int(any(found.values())) if is_whole else 3), said.output
    return found | {
        "databases": [d for d in found["databases"] if d not in others],
        "unsettled": [t for t in found["unsettled"] if t["topic"] == scene.topic],
    }


def _keep_for(scene: Scene, milliseconds: int) -> None:
    entry = ConfigEntry("retention.ms", str(milliseconds), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, scene.topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": scene.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def test_waiting_report_gives_reason_start_time_and_remedy_for_tables_and_databases(
    inline: Scene, other: Other
) -> None:
    writer: Inline = inline.writer_into(other, lock_timeout_ms=200)
    inline.send(5)
    eventually(lambda: inline.landed() == 5)
    eventually(lambda: writer.states == {inline.database: "landing", other.name: "landing"})
    with _answering(writer) as url:
        assert _waiting(inline, url)["databases"] == []
        began = datetime.now(UTC)
        other.close()
        with closing(psycopg2.connect(inline.dsn)) as owner, owner.cursor() as cursor:
            cursor.execute(f"LOCK TABLE events.{inline.name}")
            inline.send(7)
            eventually(lambda: inline.totals().get("waiting") == 7, 120)
            eventually(lambda: writer.states[other.name] == "out" and inline.group() == inline.settled())
            found, text = _waiting(inline, url), _text(inline, url)
            [later] = _waiting(inline, url)["databases"]
        [hold], [database] = found["holds"], found["databases"]
        assert (hold["database"], hold["kind"], hold["state"]) == (inline.database, "table", "blocked")
        assert (hold["name"], hold["waiting"], hold["sqlstate"]) == (f"events.{inline.name}", 7, "55P03")
        assert "55P03" in hold["why"]
        now = datetime.now(UTC)
        for each in (hold, database):
            assert began <= datetime.fromisoformat(each["since"]) <= now
            assert began <= datetime.fromisoformat(each["oldest"]) <= now
        assert later["since"] == database["since"]
        assert re.search(rf"{other.name} +the database +out +{database['since'][:19]} +7 ", text)
        assert "tries again by itself" in hold["next"]
        assert (database["database"], database["state"], database["waiting"]) == (other.name, "out", 7)
        assert "tries again by itself" in database["next"]
        assert other.name in database["why"]
        assert found["unsettled"] == []
        other.open()
        eventually(lambda: inline.landed() == 12 and _waiting_nothing(inline, url), 120)

    _keep_for(inline, 10 * 3_600_000)
    writer.stop()
    inline.send(3)
    found = _waiting(inline, "http://127.0.0.1:1", is_whole=False)  # without a writer Kafka is the buffer
    [topic] = found["unsettled"]
    assert (topic["offsets"], found["databases"]) == (3, [])
    assert 8 < topic["deleted_in_hours"] <= 10


def _waiting_nothing(scene: Scene, url: str) -> bool:
    return "is blocked" not in _text(scene, url)


def _text(scene: Scene, url: str) -> str:
    """`errors waiting`, for people."""
    where = ["--kafka", scene.bootstrap, "--dsn", scene.dsn, "--database", scene.database]
    return str(_onramp("errors", "waiting", "--writer", url, *where).stdout)
