"""The tracer's messages over syslog, on the gateway's own ports."""

import asyncio

import pytest

from services.tracer.entrances import RefusedError
from services.tracer.rows_sql import SYSLOG_APP
from services.tracer.settings import TracerSettings
from services.tracer.syslog import SyslogEntrance
from stack.ports import free_port
from tests.fixtures.writer import eventually
from tests.unit.ingest.conftest import Rig

pytestmark = pytest.mark.anyio


async def test_a_tracer_is_acknowledged_over_tcp_and_sent_over_udp(rig: Rig) -> None:
    urls = f"tcp://127.0.0.1:{rig.tcp}, udp://127.0.0.1:{rig.udp}"
    tcp, udp = TracerSettings(syslog_urls=urls).syslog()
    assert (tcp.name, udp.name) == (
        f"syslog_tcp@127.0.0.1:{rig.tcp}",
        f"syslog_udp@127.0.0.1:{rig.udp}",
    )
    assert await asyncio.to_thread(tcp.send, "t-1")
    assert rig.messages == ["t-1"]  # acknowledged: the sink has it
    assert not await asyncio.to_thread(udp.send, "t-2")
    assert await asyncio.to_thread(eventually, lambda: rig.messages == ["t-1", "t-2"])
    assert {payload["app_name"] for payload in rig.payloads} == {SYSLOG_APP}


def test_a_gateway_that_is_down_refuses_over_tcp() -> None:
    with pytest.raises(RefusedError, match="ConnectionRefusedError"):
        SyslogEntrance.of(f"tcp://127.0.0.1:{free_port()}").send("t-1")


@pytest.mark.parametrize("url", ["http://h:1", "tcp://h", "udp://:1", "tcp://h:1/x", "h:1"])
def test_another_url_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ValueError, match="syslog URL"):
        TracerSettings(syslog_urls=url)
