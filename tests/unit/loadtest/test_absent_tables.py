"""Packets for absent tables are packets to the writer, and each names a table of its own."""

from itertools import islice

import pyarrow as pa

from loadtest.absent_tables import packets
from services.writer.model.routes import Routes
from services.writer.sort.packets import destinations
from services.writer.sort.route_lookup import lookup_for
from shared.parse.parse import read


def test_each_packet_names_another_table_that_the_topic_may_address() -> None:
    texts = [packet.encode() for packet in islice(packets("onramp"), 50)]
    events = read(pa.array(texts, pa.binary()))
    assert events.errors == {}
    routing = lookup_for(Routes("onramp"))
    found = [destinations(context, "events.absent_tables", routing) for context in events.by_context()]
    assert [each.rejected for each in found] == [[]] * 50
    assert len({target for each in found for target in each.targets}) == 50
