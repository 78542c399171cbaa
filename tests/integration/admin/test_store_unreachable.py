"""While the store of segments is unreachable or hangs, pages show the data of the control database."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pytest

from services.admin.api.app import api
from services.admin.api.operators import Operators
from services.admin.dead_letters.ingester import IngesterStatus
from services.admin.segments.folder import Segments
from services.admin.store import control_sql
from services.admin.store.bytes_sql import shown
from services.admin.store.control_sql import Pool, transaction
from shared.registry.memory import MemoryRegistry
from tests.fixtures.fix_postgres import Templates
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.segment_store import Shelf

NOT_READ = "not read: store_unavailable"


@pytest.fixture
def shelf(templates: Templates, tmp_path: Path) -> Iterator[Shelf]:
    """Of three events the bytes of two are in a segment."""
    with database_beside(templates.server, templates.control) as dsn:
        shelf = Shelf(dsn, tmp_path / "store")
        shelf.keep(2)
        assert shelf.pack()
        shelf.keep(1, at=2)
        yield shelf


@pytest.fixture
def ask(shelf: Shelf) -> Callable[..., httpx2.Response]:
    """Call the API of the service."""
    operators = Operators(MemoryRegistry({}), keyless=True)
    lifespan: Any = lambda _: nullcontext()  # noqa: E731
    app = api(shelf.dsn, {}, IngesterStatus(), operators, lifespan=lifespan, segments=shelf.segments)

    async def request(method: str, path: str, **more: Any) -> httpx2.Response:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, **more)

    return lambda *args, **more: asyncio.run(request(*args, **more))


def test_pages_show_what_the_database_has_while_the_folder_is_away(
    shelf: Shelf, ask: Callable[..., httpx2.Response]
) -> None:
    away = shelf.folder.with_name("elsewhere")
    shelf.folder.rename(away)
    events = ask("GET", "/v1/events").json()["events"]
    paths = [f"/v1/events/{event['id']}" for event in events]
    shapes = [ask("GET", path).json()["shape"] for path in paths]
    assert [shape == NOT_READ for shape in shapes] == [False, True, True]
    groups = {event["group"] for event in events}
    samples = [sample for n in groups for sample in ask("GET", f"/v1/groups/{n}").json()["samples"]]
    assert (len(samples), samples.count(NOT_READ)) == (3, 2)
    refused = ask("POST", f"{paths[1]}/reveal", json={"actor": "ann", "reason": "to see it"})
    assert (refused.status_code, refused.json()["type"]) == (503, "/errors/store_unavailable")
    assert ask("GET", "/v1/audit-log").json()["acts"] == []  # nobody has seen it
    away.rename(shelf.folder)
    assert ask("GET", paths[1]).json()["shape"] != NOT_READ


@pytest.mark.timeout(300)
def test_a_bucket_that_hangs_keeps_no_connection_from_others(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    one = Pool(shelf.dsn, max_connections=1)
    monkeypatch.setattr(control_sql, "_pool", lambda _: one)
    events = [number for (number,) in shelf.rows("SELECT id FROM onramp_admin.events ORDER BY id")]
    found: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as hole:
        where = f"s3://bucket/store?scheme=http&endpoint_override=127.0.0.1:{hole.getsockname()[1]}"
        bucket = Segments(where)
        reader = threading.Thread(target=lambda: found.append(shown(shelf.dsn, bucket, events)))
        reader.start()
        client, _ = hole.accept()  # it waits for the bucket
        with transaction(shelf.dsn) as conn, conn.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM onramp_admin.groups")
            assert cursor.fetchone() == (3,)
        client.close()
    reader.join()
    [loaded] = found
    assert {why.fault.code for why in loaded.lost.values()} == {"store_unavailable"}
    assert (set(loaded.values), set(loaded.lost)) == ({events[2]}, set(events[:2]))
