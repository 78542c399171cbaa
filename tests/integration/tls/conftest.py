"""A certificate authority for the TLS ports of the gateway."""

import pytest

from tests.fixtures.authority import Authority


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
