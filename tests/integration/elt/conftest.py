"""A desk in a migrated database of the test's own."""

import pytest

from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import Bench
from tests.integration.elt.desk import Desk


@pytest.fixture
def desk(migrated: Database) -> Desk:
    """Its table is not told yet: `tell` does."""
    return Desk(Bench(migrated.dsn).prepare()).prepare()
