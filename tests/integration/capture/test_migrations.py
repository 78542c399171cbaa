"""After the migrations of Django and Airflow, forwards and backwards, public tables equal their source."""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from psycopg2.extensions import parse_dsn

from loadtest.same_rows import differing
from stack.connect import Connect
from stack.postgres import Postgres
from stack.services import ROOT
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.running_part import started
from tests.fixtures.sources import Captured, captured, flows
from tests.fixtures.writer import eventually
from tests.integration.capture.conftest import Warehouse

pytestmark = pytest.mark.full

DJANGO = ("django==5.2",)
#: The last release of 2; its migrations go back to 2.0.0.  A later dependency breaks it.
AIRFLOW = ("apache-airflow==2.10.5", "--exclude-newer", "2025-03-01")
#: What a process of a tool may take on a busy machine.
TOOL_SECONDS = 1200
PATIENCE = 300.0
_TABLES = """
    SELECT relname FROM pg_class WHERE relnamespace = 'app'::regnamespace AND relkind = 'r' ORDER BY relname
"""
_DJANGO = """
import sys
from django.conf import settings
host, port, user, password, name = sys.argv[1:6]
settings.configure(
    SECRET_KEY="none",
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "HOST": host, "PORT": port, "USER": user,
        "PASSWORD": password, "NAME": name, "OPTIONS": {"options": "-c search_path=app"}}},
    INSTALLED_APPS=["django.contrib." + app for app in (
        "contenttypes", "auth", "sessions", "admin", "sites", "flatpages", "redirects")],
)
import django
django.setup()
from django.core.management import call_command
for step in sys.argv[6:]:
    if step == "rows":
        from django.contrib.auth.models import Group, Permission, User
        users = [User(username=f"user{n}", email=f"{n}@shop.example") for n in range(200)]
        User.objects.bulk_create(users)
        group = Group.objects.create(name="all")
        group.permissions.set(Permission.objects.all())
        group.user_set.set(User.objects.all())
        User.objects.filter(pk__lt=50).update(first_name="early")
        User.objects.filter(pk__gt=150).delete()
    else:
        call_command("migrate", *step.split()[step == "migrate":], verbosity=0)
"""
#: The verb adds rows afterwards, by the tables of its own version.
_AIRFLOW = """
import sys
from alembic import command
from airflow.utils import db
command.upgrade(db._get_alembic_config(), db._REVISION_HEADS_MAP[sys.argv[1]])
"""


def uv() -> str:
    """Return the uv of the PATH, or the one that `make setup` installed."""
    found = shutil.which("uv") or shutil.which(str(ROOT / ".onramp/tools/bin/uv"))
    if found is None:
        pytest.skip("uv, which installs the tool beside this environment, is not here")
    return found


def run(folder: Path, packages: tuple[str, ...], *command: str, **env: str) -> None:
    """Run a tool with packages of its own."""
    first, *options = packages
    argv = [uv(), "run", "--no-project", "--isolated", *options, "--with", first]
    argv += ["--with", "psycopg2-binary", *command]
    ours = re.compile("PYTHONPATH|VIRTUAL_ENV|AIRFLOW")
    variables = {name: value for name, value in os.environ.items() if not ours.match(name)}
    done = subprocess.run(
        argv,
        cwd=folder,
        env={**variables, **env},
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def require(folder: Path, packages: tuple[str, ...], module: str) -> None:
    """Skip the test where the tool cannot be installed."""
    try:
        run(folder, packages, "python", "-c", f"import {module}")
    except (AssertionError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{packages[0]} cannot be installed here: {str(error)[-200:]}")


@pytest.fixture
def shop(server: Postgres, connect: Connect, kafka: HasBootstrap) -> Iterator[Captured]:
    """A source without tables that an agent polls, with a writer and a merger."""
    with (
        captured(server, connect, kafka.bootstrap) as made,
        started(Warehouse(made)),
        closing(made.new_reconciler()) as reconciler,
    ):
        flows(reconciler)
        stop = threading.Event()

        def poll() -> None:
            while not stop.wait(0.5):
                reconciler.reconcile()

        polling = threading.Thread(target=poll)
        polling.start()
        try:
            yield made
        finally:
            stop.set()
            polling.join()


def is_equal(shop: Captured) -> None:
    """Wait until each public table equals its source, and none is suspended."""
    for (table,) in shop.ask(_TABLES):

        def differs(table: str = table) -> tuple[int, int] | None:
            return differing(shop.dsn, f"app.{table}", shop.published, f"{shop.name}.{table}")

        try:
            eventually(lambda: differs() == (0, 0), PATIENCE)
        except AssertionError:
            pytest.fail(f"{table}: {differs()} rows differ; suspended: {suspended(shop)}")
    assert suspended(shop) == []


def suspended(shop: Captured) -> list[tuple[object, ...]]:
    query = "SELECT table_name, reason FROM onramp.table_settings WHERE reason IS NOT NULL ORDER BY 1"
    return shop.ask(query, at=shop.published)


def test_after_djangos_migrations_all_tables_are_equal(shop: Captured, tmp_path: Path) -> None:
    require(tmp_path, DJANGO, "django")
    given = parse_dsn(shop.dsn)
    reached = [given[name] for name in ("host", "port", "user", "password", "dbname")]

    def migrate(*steps: str) -> None:
        run(tmp_path, DJANGO, "python", "-c", _DJANGO, *reached, *steps)

    migrate("migrate", "rows")
    is_equal(shop)
    migrate("auth 0001", "admin zero", "contenttypes 0001", "flatpages zero")
    is_equal(shop)
    migrate("migrate", "sites zero", "migrate")
    is_equal(shop)


def test_after_airflows_migrations_all_tables_are_equal(shop: Captured, tmp_path: Path) -> None:
    require(tmp_path, AIRFLOW, "airflow.version")
    env = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"{shop.dsn}?options=-csearch_path%3Dapp".replace(
            "postgresql:", "postgresql+psycopg2:"
        ),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }

    def migrate(*command: str) -> None:
        run(tmp_path, AIRFLOW, "airflow", "db", *command, **env)

    run(tmp_path, AIRFLOW, "python", "-c", _AIRFLOW, "2.0.0", **env)
    is_equal(shop)
    migrate("migrate")
    is_equal(shop)
    migrate("downgrade", "--to-version", "2.6.0", "--yes")
    is_equal(shop)
    migrate("migrate")
    is_equal(shop)
