"""Topics: the event topics as of the last reading, and the newest records of one."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Annotated, Any, Final

import orjson
from fastapi import Query
from fastapi.responses import Response

from services.admin.registry_api.schemas import SampleQuery, TopicName
from services.admin.ui.routes import Ui
from services.admin.ui.view import PageView, View
from services.ops.operate.topics import TopicFacts, topic_of
from services.ops.registry.topic_owners import events_of, facts_with_types
from shared.errors import NOT_ALLOWED, UserError
from shared.registry import Snapshot

_PAGE: Final = 50
_NEWEST: Final = 50


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/topics")
    def list_topics(view: View, cursor: Annotated[str, Query(max_length=249)] = "") -> Response:
        snapshot = _registry(view)
        visible = [each for each in _facts(view) if view.caller.sees(*events_of(snapshot, each.topic))]
        first = bisect_right([each.topic for each in visible], cursor)
        shown = visible[first : first + _PAGE]
        return view.page(
            "topics.html",
            title="Topics",
            nav="topics",
            cli="onramp topics list",
            poll=15,
            topics=[facts_with_types(snapshot, each) for each in shown],
            count=len(visible),
            at=view.state.figures.totals.topics_at,
            cursor=shown[-1].topic if len(visible) > first + _PAGE else None,
            filters={"cursor": cursor or None},
        )

    @ui.get("/topics/{name}")
    def show_topic(view: View, name: TopicName) -> Response:
        sample = view.part(
            "Kafka",
            lambda: (
                view.call("GET /v1/topics/{name}/sample", name=name, query=SampleQuery(last=_NEWEST)).document
            ),
        )
        snapshot = _registry(view)
        topic = sample["topic"] if sample else topic_of(name)
        if not view.caller.sees(*events_of(snapshot, topic)):
            raise UserError(NOT_ALLOWED, "this key sees other event types")
        facts = next((each for each in _facts(view) if each.topic == topic), None)
        records = [_record(each) for each in reversed(sample["records"])] if sample else []
        return view.page(
            "topic.html",
            title=topic,
            nav="topics",
            cli="onramp topics sample " + topic + " --last " + str(_NEWEST),
            topic=topic,
            facts=facts_with_types(snapshot, facts) if facts else None,
            at=view.state.figures.totals.topics_at,
            records=records,
            is_whole=sample is None or sample["complete"],
        )


def _registry(view: PageView) -> Snapshot:
    """Return the registry in force.  Raises `InfrastructureError`."""
    snapshot: Snapshot = view.state.registry()
    return snapshot


def _facts(view: PageView) -> Sequence[TopicFacts]:
    facts: Sequence[TopicFacts] = view.state.figures.totals.topics
    return facts


def _record(record: dict[str, Any]) -> dict[str, Any]:
    event = record["event"]
    shape = event if isinstance(event, str) else orjson.dumps(event, option=orjson.OPT_INDENT_2).decode()
    return record | {"shape": shape}
