"""Floods of requests stay within the gateway's byte budget plus the base memory of a process."""

import asyncio
from pathlib import Path

import pytest

from loadtest import floods
from stack import services
from tests.fixtures.fix_kafka import HasBootstrap

#: Of the 100 MiB beside the budget a gateway that does nothing has two thirds.
BESIDE = 34 * floods.MIB
#: A budget in MiB, and clients of whom a flood without our protections takes more than that.
SIZES = {
    "stalled readers of large answers": (16, 150),
    "bodies of 1 MiB that end late": (96, 250),
    "pipelines of 2,000 requests": (16, 300),
}
#: The one in `make test`: it fills the budget, and allocates and returns large blocks on its way.
USUAL = "gzips of 9 MB that end late"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] * (name != USUAL)) for name in floods.FLOODS]
)
def test_no_flood_takes_more_than_its_budget(name: str, kafka: HasBootstrap, tmp_path: Path) -> None:
    mib, clients = SIZES.get(name, (64, 100))
    budget = mib * floods.MIB
    env = {"ONRAMP_INGEST_INFLIGHT_BYTES": str(budget)}
    gateway = services.gateway(bootstrap=kafka.bootstrap, log=tmp_path / "gateway.log", env=env)
    try:
        gateway.start()
        gateway.wait_ready(120)
        before = floods.peak(gateway.pid)
        asyncio.run(floods.flood(name, gateway.port, clients))
        most = floods.peak(gateway.pid)
    finally:
        gateway.stop()

    assert most - before < budget + BESIDE
