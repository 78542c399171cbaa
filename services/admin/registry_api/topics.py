"""The routes of the events' topics: list, sample, create and change."""

import asyncio
from bisect import bisect_right
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query

from services.admin.api.operators import Caller
from services.admin.api.rights import Asking
from services.admin.registry_api.changes import require_there
from services.admin.registry_api.pages import page
from services.admin.registry_api.schemas import (
    NewTopic,
    Said,
    SampleQuery,
    TopicChange,
    TopicName,
    TopicQuery,
    body,
    described,
    document_of,
    valid,
)
from services.admin.store.control_sql import transaction
from services.admin.store.read_sql import record_act
from services.ops.operate import kafka_new_topic, kafka_retention, topics
from services.ops.operate.newest_records import newest
from services.ops.registry.registry_reader import RegistryReader
from services.ops.registry.topic_owners import (
    events_of,
    facts_with_types,
    personal_of,
    shown,
)
from shared.errors import TOPIC_REFUSED, UserError
from shared.registry import Snapshot


def add_topics(app: FastAPI, dsn: str, desk: RegistryReader) -> None:
    """Add the routes."""

    @app.get("/v1/topics")
    def list_topics(query: Annotated[TopicQuery, Query()], asking: Asking) -> dict[str, Any]:
        """The events' topics: type, partitions, replicas, retention, events, rate and lag."""
        snapshot = desk.read().snapshot
        further: list[str | None] = []

        def pick(names: list[str]) -> list[str]:
            seen = [name for name in names if _sees(asking, snapshot, name)]
            on_page, cursor = page(
                dsn,
                "topics",
                query,
                asking,
                lambda after: seen if after is None else seen[bisect_right(seen, after) :],
            )
            further.append(cursor)
            return on_page

        found = asyncio.run(topics.facts(desk.kafka.brokers, pick))
        return {"topics": [facts_with_types(snapshot, each) for each in found], "next": further[-1]}

    @app.get("/v1/topics/{name}/sample")
    def sample_topic(
        name: TopicName, query: Annotated[SampleQuery, Query()], asking: Asking
    ) -> dict[str, Any]:
        """The newest records as shapes of their values; personal fields are hidden.

        At most 64 MiB are read in 3 seconds; above that `complete` is false, and records are left out.
        """
        snapshot = desk.read().snapshot
        for topic in dict.fromkeys((topics.topic_of(name), name)):
            if topics.is_own(topic) or not _sees(asking, snapshot, topic):
                continue
            found = asyncio.run(newest(desk.kafka.brokers, topic, query.last))
            if found is not None:
                personal = personal_of(snapshot, topic)
                records = [shown(record, personal) for record in found.records]
                return {"topic": topic, "records": records, "complete": found.is_whole}
        require_there(False, "topic")
        raise AssertionError

    _add_changes(app, dsn, desk)


def _add_changes(app: FastAPI, dsn: str, desk: RegistryReader) -> None:
    @app.post("/v1/topics", status_code=201, openapi_extra=described(NewTopic))
    def create_topic(
        given: Annotated[bytes, Depends(body())], said: Annotated[Said, Query()], asking: Asking
    ) -> dict[str, Any]:
        """Create a topic as the gateway would at its first event, with the settings given here."""
        new, actor = valid(NewTopic, document_of(given)), asking.acting(said.actor)
        topic = topics.topic_of(new.topic)
        wanted = kafka_new_topic.Wanted(
            topic=topic, partitions=new.partitions, replication=new.replication, retention=new.retention
        )
        try:
            spec = kafka_new_topic.spec_of(wanted, desk.read().snapshot.event_types, desk.kafka)
        except ValueError as e:
            raise UserError(TOPIC_REFUSED, str(e)) from None
        settings = {"partitions": spec.num_partitions, "replication": spec.replication_factor}
        with transaction(dsn) as conn:
            record_act(conn, actor, "create topic", f"topic {topic}", said.reason)
            if refused := asyncio.run(kafka_new_topic.create(spec, desk.kafka, is_dry=said.dry_run)):
                raise UserError(TOPIC_REFUSED, refused)
            if said.dry_run:
                conn.rollback()
        return {"topic": topic, "created": not said.dry_run, **settings, "config": spec.topic_configs}

    @app.patch("/v1/topics/{name}", openapi_extra=described(TopicChange))
    def change_topic(
        name: TopicName,
        given: Annotated[bytes, Depends(body())],
        said: Annotated[Said, Query()],
        asking: Asking,
    ) -> dict[str, Any]:
        """Change a topic's retention; with `dry_run` Kafka only validates the change."""
        wanted, actor = valid(TopicChange, document_of(given)), asking.acting(said.actor)
        topic = topics.topic_of(name)
        with transaction(dsn) as conn:
            record_act(conn, actor, f"keep {wanted.retention}", f"topic {topic}", said.reason)
            change = kafka_retention.change(desk.kafka.brokers, topic, wanted.retention, is_dry=said.dry_run)
            try:
                done = asyncio.run(change)
            except ValueError as e:
                raise UserError(TOPIC_REFUSED, str(e)) from None
            if said.dry_run:
                conn.rollback()
        return done.as_dict() | {"dry_run": said.dry_run}


def _sees(asking: Caller, snapshot: Snapshot, topic: str) -> bool:
    return asking.sees(*events_of(snapshot, topic))
