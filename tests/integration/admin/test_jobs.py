"""Jobs: a job changes exactly the counted events, each once, and survives a kill."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from services.admin.jobs.job_session import JobSession
from services.admin.store import jobs_sql, sets_sql
from services.admin.store.control_sql import transaction
from services.cli.app import app
from stack import services
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import HasDsn, Templates
from tests.fixtures.writer import eventually, execute, rows
from tests.integration.admin.admin_service import Admin, refused
from tests.integration.admin.conftest import database_beside

PLANT = """
    WITH planted AS (
        INSERT INTO onramp_admin.groups (fingerprint, version, event_name, events, first_seen, last_seen)
        VALUES (decode(md5('{name}'), 'hex'), 1, '{name}', {count}, now(), now()) RETURNING id)
    INSERT INTO onramp_admin.parked (topic_id, topic, partition, "offset", destination, group_id, code,
                                     event_name, parked_at, reason, size)
    SELECT '{topic_id}', '{name}', 0, n, 'd', id, 'x', '{name}', now(), '{{}}', 0
    FROM planted, generate_series(1, {count}) n
"""
LATER = """
    INSERT INTO onramp_admin.parked (topic_id, topic, partition, "offset", destination, group_id, code,
                                     event_name, parked_at, reason, size)
    SELECT topic_id, topic, partition, "offset" + 100, destination, group_id, code, event_name, parked_at,
           reason, size
    FROM onramp_admin.events WHERE event_name = '{name}'
"""
OLD = """
    UPDATE onramp_admin.states SET changed_at = now() - interval '7 days 1 second'
    FROM onramp_admin.parked WHERE id = event AND event_name = '{name}' AND "offset" <= 4
"""
BY = {"actor": "ann", "reason": "the sender has sent them again"}


@pytest.fixture
def name(admin: Admin) -> str:
    """An event type with 12,000 events, which no ingester reads."""
    return plant(admin.dsn, 12_000)


def plant(dsn: str, count: int) -> str:
    name = f"planted_{uuid4().hex[:8]}"
    execute(dsn, PLANT.format(name=name, count=count, topic_id=uuid4()))
    return name


def start(admin: Admin, kind: str, name: str, **more: Any) -> Any:
    return admin.ask("POST", "/v1/jobs", json={"kind": kind, "filters": {"event_name": name}, **BY, **more})


def finished(admin: Admin, job: dict[str, Any]) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        now: dict[str, Any] = admin.get(f"/v1/jobs/{job['id']}").json()
        return None if now["state"] == "running" else now

    found = eventually(ended, 120)
    assert found is not None
    return found


def states(dsn: str, name: str) -> dict[str, int]:
    """How many events of a type are in which state."""
    found = rows(dsn, "SELECT event_name, state, count(*) FROM onramp_admin.events GROUP BY 1, 2")
    return {state: count for event_name, state, count in found if event_name == name}


def test_a_set_is_counted_before_it_is_discarded_and_can_be_restored(admin: Admin, name: str) -> None:
    said = start(admin, "discard", name, dry_run=True).json()
    assert (said["events"], states(admin.dsn, name)) == (12_000, {"open": 12_000})
    other = plant(admin.dsn, 5)
    answer = start(admin, "discard", name, upto=said["upto"], expect=said["events"])
    assert answer.status_code == 202
    done = finished(admin, answer.json())
    assert (done["state"], done["counted"], done["changed"]) == ("done", 12_000, 12_000)
    assert states(admin.dsn, name) == {"discarded": 12_000}
    assert states(admin.dsn, other) == {"open": 5}
    finished(admin, start(admin, "restore", name).json())
    assert states(admin.dsn, name) == {"open": 12_000}
    acts = rows(admin.dsn, "SELECT actor, act, subject, reason FROM onramp_admin.acts")
    assert ("ann", "start discard", f"job {done['id']}", BY["reason"]) in acts


def test_a_set_is_frozen_what_is_kept_later_is_not_in_it(admin: Admin) -> None:
    name = plant(admin.dsn, 10)
    upto = start(admin, "discard", name, dry_run=True).json()["upto"]
    execute(admin.dsn, LATER.format(name=name))
    finished(admin, start(admin, "discard", name, upto=upto, expect=10).json())
    assert states(admin.dsn, name) == {"open": 10, "discarded": 10}


@pytest.mark.parametrize("filters", [{}, {"code": None}])
def test_a_job_without_a_filter_is_refused(admin: Admin, filters: dict[str, Any]) -> None:
    answer = admin.ask("POST", "/v1/jobs", json={"kind": "discard", "filters": filters, **BY})
    assert (answer.status_code, answer.json()["type"]) == (400, "/errors/no_filter")


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "discard", "filters": {"code": "x"}, "with_triggers": True},
        {"kind": "rehearse", "rehearsed": 1},
        {"kind": "discard", "filters": {"code": "x"}, "fix": [{"drop": "/a"}]},
        {"kind": "replay", "rehearsed": 1, "fix": [{"drop": "/a"}]},
        {"kind": "replay", "filters": {"code": "x"}, "rehearsed": 1},
        {"kind": "discard", "filters": {"code": "x"}, "to": "shop.orders"},
        {"kind": "replay", "rehearsed": 1, "to": "shop.orders"},
        {"kind": "replay", "filters": {"code": "x"}, "to": "orders"},
    ],
)
def test_a_plan_that_is_none_is_refused(admin: Admin, asked: dict[str, Any]) -> None:
    answer = admin.ask("POST", "/v1/jobs", json={**asked, **BY})
    assert (answer.status_code, answer.json()["type"]) == (422, "/errors/bad_query")


@pytest.mark.parametrize(
    ("fix", "status"),
    [('[{"drop": ""}]', 422), ('[{"drop":"/a","drop":"/b"}]', 400), ('[{"default":"/a","value":NaN}]', 400)],
)
def test_a_fix_that_is_none_is_refused(admin: Admin, fix: str, status: int) -> None:
    body = f'{{"kind":"replay","actor":"a","reason":"b","filters":{{"code":"x"}},"fix":{fix}}}'
    answer = admin.ask("POST", "/v1/jobs", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_the_replay_of_what_is_no_rehearsal_is_refused(admin: Admin) -> None:
    job = start(admin, "discard", plant(admin.dsn, 1)).json()["id"]
    answer = admin.ask("POST", "/v1/jobs", json={"kind": "replay", "rehearsed": job, **BY})
    assert (answer.status_code, answer.json()["type"]) == (404, "/errors/not_stored")


def test_of_jobs_at_once_each_event_goes_to_one(admin: Admin, name: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: start(admin, "discard", name), range(4)))
    done = [finished(admin, answer.json()) for answer in answers if answer.status_code == 202]
    assert sum(job["changed"] for job in done) == 12_000
    assert states(admin.dsn, name) == {"discarded": 12_000}


def test_discarded_event_is_not_discarded_again_and_a_changed_set_is_refused(admin: Admin) -> None:
    name = plant(admin.dsn, 10)
    wrong = start(admin, "discard", name, expect=9)
    assert (wrong.status_code, wrong.json()["type"]) == (409, "/errors/set_changed")
    assert states(admin.dsn, name) == {"open": 10}
    finished(admin, start(admin, "discard", name).json())
    assert start(admin, "discard", name).status_code == 409
    assert start(admin, "restore", plant(admin.dsn, 1)).status_code == 409


def test_a_discard_is_undone_within_seven_days(admin: Admin) -> None:
    name = plant(admin.dsn, 10)
    finished(admin, start(admin, "discard", name).json())
    execute(admin.dsn, OLD.format(name=name))
    finished(admin, start(admin, "restore", name).json())
    assert states(admin.dsn, name) == {"discarded": 4, "open": 6}


def test_a_job_has_a_rate_shows_how_far_it_is_and_can_be_cancelled(admin: Admin, name: str) -> None:
    job = start(admin, "discard", name, rate=100).json()
    eventually(lambda: admin.get(f"/v1/jobs/{job['id']}").json()["changed"], 120)
    ended = admin.ask("POST", f"/v1/jobs/{job['id']}/cancel", json={"actor": "bob"}).json()
    assert ended["state"] == "cancelled"
    assert 0 < ended["changed"] < 12_000
    assert ended["changed"] % 100 == 0
    assert states(admin.dsn, name)["discarded"] == ended["changed"]
    assert finished(admin, job)["changed"] == ended["changed"]


def test_a_batch_is_what_may_change_in_a_second(templates: Templates) -> None:
    with database_beside(templates.server, templates.control) as dsn:
        session = JobSession.open(dsn)
        name = plant(dsn, 1_000)
        with transaction(dsn) as conn:
            events = sets_sql.frozen(conn, {"event_name": name})
            jobs_sql.add(conn, "discard", events, ("ann", "x"), rate=100, counted=1_000)
        assert session.work()
        session.close()
        assert states(dsn, name) == {"open": 900, "discarded": 100}
        pause = "SELECT DISTINCT j.next_at - e.changed_at FROM onramp_admin.jobs j, onramp_admin.events e"
        assert rows(dsn, f"{pause} WHERE e.job = j.id") == [(timedelta(seconds=1),)]


def test_a_service_that_is_killed_in_mid_discard_changes_each_event_once(
    own_topics: HasBootstrap, postgres: HasDsn, tmp_path: Path
) -> None:
    with database_beside(postgres.dsn, "template0") as dsn:
        JobSession.open(dsn).close()
        name = plant(dsn, 12_000)
        with transaction(dsn) as conn:
            events = sets_sql.frozen(conn, {"event_name": name})
            job = jobs_sql.add(conn, "discard", events, ("ann", "x"), rate=None, counted=12_000)
        env = {"ONRAMP_FAILPOINTS": "admin.mid_job=kill"}
        bootstrap = own_topics.bootstrap
        doomed = services.admin(bootstrap=bootstrap, dsn=dsn, log=tmp_path / "doomed.log", env=env)
        doomed.start()
        eventually(lambda: not doomed.child.running, 120)
        assert states(dsn, name) == {"open": 12_000}
        session = JobSession.open(dsn)
        while session.work():
            pass
        session.close()
        with transaction(dsn) as conn:
            done = jobs_sql.job(conn, job)
        assert done is not None
        assert (done.state, done.changed) == ("done", 12_000)
        assert states(dsn, name) == {"discarded": 12_000}


def test_the_command_line_counts_asks_discards_and_restores(admin: Admin) -> None:
    name = plant(admin.dsn, 10)

    def run(*arguments: str, answer: str = "") -> Any:
        return CliRunner().invoke(app, ["errors", *arguments, "--admin", admin.service.url], input=answer)

    discard = ["discard", "--event", name, "--reason", "no use", "--actor", "ann"]
    counted = run(*discard, "--dry-run")
    assert (counted.exit_code, counted.stdout) == (0, "10 events\n")
    assert (run(*discard, answer="n\n").exit_code, states(admin.dsn, name)) == (1, {"open": 10})
    job = json.loads(run(*discard, "--json", answer="y\n").stdout.splitlines()[-1])
    assert finished(admin, job)["changed"] == 10
    again = run(*discard, "--yes")
    assert (again.exit_code, "no event that a job could discard" in again.stderr) == (1, True)
    back = json.loads(run("restore", "--event", name, "--reason", "a mistake", "--yes", "--json").stdout)
    finished(admin, back)
    assert states(admin.dsn, name) == {"open": 10}
    assert "10 of 10" in run("jobs").stdout
    assert "state: done" in run("jobs", str(back["id"])).stdout
    assert run("jobs", str(job["id"]), "--cancel").stdout.splitlines()[1].split()[1:3] == ["discard", "done"]
    nothing = run("discard", "--reason", "all of it", "--yes")
    assert (nothing.exit_code, "A job needs a filter." in nothing.stderr) == (1, True)


def test_a_job_that_is_asked_for_again_with_its_key_is_started_once(admin: Admin) -> None:
    name = plant(admin.dsn, 3)
    key = {"headers": {"idempotency-key": uuid4().hex}}

    def ask(reason: str = "a test", actor: str = "ann", **more: Any) -> Any:
        asked = {"kind": "discard", "filters": {"event_name": name}, "reason": reason, "actor": actor}
        return admin.ask("POST", "/v1/jobs", json=asked | more, **key)

    assert ask(dry_run=True).json()["events"] == 3
    first = ask()
    finished(admin, first.json())
    again = ask()  # nothing is open any more: another job would be refused
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    refused(ask("another reason"), 422, "idempotency_key_reused")
    refused(ask(actor="bob"), 409, "set_changed")
    refused(start(admin, "discard", name), 409, "set_changed")
    execute(admin.dsn, "UPDATE onramp_admin.requests SET at = at - interval '25 hours'")
    refused(ask(), 409, "set_changed")
    for wrong in ("", "x" * 129, "a b"):
        key["headers"]["idempotency-key"] = wrong
        refused(ask(), 422, "bad_query")
