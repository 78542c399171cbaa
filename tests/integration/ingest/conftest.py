"""Fixtures: the gateway in this process, and anyio on asyncio."""

import pytest

from tests.fixtures.fix_ingest import serve, served

__all__ = ["serve", "served"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
