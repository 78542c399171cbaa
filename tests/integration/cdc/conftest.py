"""A bench for the merger in a migrated database of the test."""

from collections.abc import Iterator

import pytest

from tests.fixtures.fix_postgres import Database, Templates, created
from tests.fixtures.writer import Bench
from tests.integration.cdc.merge_bench import Desk


@pytest.fixture
def published(templates: Templates) -> Iterator[Database]:
    """A database that sources are published to, dropped after the test."""
    with created(templates.server, templates.cdc) as database:
        yield database


@pytest.fixture
def desk(published: Database) -> Desk:
    """A bench whose table has no history yet: `tell` writes it."""
    return Desk(Bench(published.dsn).prepare()).prepare()
