"""Adds the lake to a journey: whether the table of the event's type has the row of each receipt."""

from dataclasses import replace

from services.ops.audit.lake import Lake
from services.ops.journey.timeline import Journey, Kind, Passage, Step
from services.ops.lake.delta_rows import RowAnswer, row_of
from shared.errors import InfrastructureError


def with_lake(journey: Journey, lake: Lake) -> Journey:
    """Return the journey with a step for the lake in each acceptance whose type has a table there."""
    return replace(journey, passages=tuple(_with_step(passage, lake) for passage in journey.passages))


def _with_step(passage: Passage, lake: Lake) -> Passage:
    receipt, name = passage.receipt, passage.event_name
    if receipt is None or name is None or not passage.is_known:
        return passage
    table = lake.registry.lake_table_of(name) or name
    if not lake.is_for(name, table):
        return passage  # it is another type's
    try:
        answer = row_of(lake.storage, table, receipt.source, receipt.offset)
    except InfrastructureError as error:
        sentence = f"{error.detail.rstrip('.')}: whether the event is in lake.{table} is unknown."
        return replace(passage, unknown=(*passage.unknown, sentence))
    if answer is None:
        return passage  # the type has no table in the lake
    kind, text = _clause(table, answer)
    condition = f"_topic = '{receipt.source.topic}' AND _partition = {receipt.source.partition}"
    query = f"SELECT * FROM {table} WHERE {condition} AND _offset = {receipt.offset}"  # noqa: S608 - for `onramp lake query`
    step = Step(
        kind,
        text,
        receipt=receipt,
        destination=f"lake.{table}",
        sql=query if answer.has_row else None,
    )
    return replace(passage, steps=(*passage.steps, step), outcomes=(*passage.outcomes, step))


def _clause(table: str, answer: RowAnswer) -> tuple[Kind, str]:
    if answer.has_row:
        return Kind.LANDED, f"landed in lake.{table}"
    if not answer.has_later:
        return Kind.NOT_SETTLED, f"has not landed in lake.{table} yet"
    why = ": it was parked, or its date was dropped by keep_days" if answer.has_dropped else ": it was parked"
    return Kind.ABSENT, f"has no row in lake.{table}, which has later events{why}"
