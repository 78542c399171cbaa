"""The services that use the writer's databases read the same DSNs from the writer's settings."""

import pytest

from services.tracer.settings import TracerSettings
from shared.writer_databases import WriterDatabases


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch) -> WriterDatabases:
    monkeypatch.setenv("ONRAMP_WRITER_DSN", "of-default")
    monkeypatch.setenv("ONRAMP_WRITER_BATCH_EVENTS", "1")
    monkeypatch.setenv(
        "ONRAMP_WRITER_DATABASES",
        '{"b": "of-b", "c": {"dsn": "of-c", "ddl_dsn": "owner-of-c", "schemas": ["x"]}, '
        '"onramp": {"ddl_dsn": "owner-of-default"}}',
    )
    return WriterDatabases()


def test_the_default_database_is_the_first(databases: WriterDatabases) -> None:
    assert list(databases.by_name().items()) == [("onramp", "of-default"), ("b", "of-b"), ("c", "of-c")]
    assert list(databases.owners_by_name().values()) == ["owner-of-default", "of-b", "owner-of-c"]
    assert databases.owners() == {"c": "owner-of-c", "onramp": "owner-of-default"}
    assert databases.schemas() == {"c": ("x",)}


def test_without_a_dsn_there_is_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONRAMP_WRITER_DSN", "ONRAMP_WRITER_DATABASES"):
        monkeypatch.delenv(name, raising=False)
    assert WriterDatabases().by_name() == WriterDatabases().owners_by_name() == {}


def test_the_tracer_expects_tracers_in_the_databases_that_it_names(databases: WriterDatabases) -> None:
    assert TracerSettings().destinations(databases) == {"onramp": "of-default"}
    assert TracerSettings(databases="c, b").destinations(databases) == {"c": "of-c", "b": "of-b"}
    with pytest.raises(ValueError, match="no DSN is configured for d"):
        TracerSettings(databases="b,d").destinations(databases)
