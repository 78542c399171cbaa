"""The UI over one control database of the module's own."""

from collections.abc import Iterator

import pytest

from tests.fixtures.fix_postgres import Templates
from tests.fixtures.ui import Browser, UiService, serving
from tests.integration.admin.conftest import database_beside


@pytest.fixture(scope="module")
def service(templates: Templates) -> Iterator[UiService]:
    with (
        database_beside(templates.server, templates.control) as dsn,
        serving(dsn) as found,
    ):
        yield found


@pytest.fixture
def browser(service: UiService) -> Browser:
    return service.browser()
