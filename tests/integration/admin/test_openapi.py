"""Each operation of the admin service conforms to its OpenAPI document, with valid and invalid data.

In this process, on a real control database and a real Kafka. A few examples each; `make test-full` has more.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from unittest import SkipTest

import orjson
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.core.parameters import ParameterLocation
from schemathesis.errors import InvalidSchema
from schemathesis.generation import GenerationMode
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import negative_data_rejection

from services.admin.api.app import api
from services.admin.api.journey import add_journey
from services.admin.api.operators import Operators
from services.admin.api.rights import NEEDS, OPEN
from services.admin.api.statement import add_statement
from services.admin.dead_letters.ingester import IngesterStatus
from services.admin.registry_api.routes import add_registry
from services.admin.samples_api.routes import add_samples
from services.admin.statements.period import Statements
from services.admin.store.control_sql import prepare, transaction
from services.admin.waiting_api.routes import add_waiting
from services.ops.journey.finder import Finder
from services.ops.registry.database_addresses import KnownPlaces
from services.ops.registry.registry_reader import RegistryReader
from shared.postgres.source_dsns import SourceDsns
from shared.registry.log import MemoryLog
from shared.registry.memory import MemoryRegistry
from shared.settings import KafkaSettings, RegistrySettings
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.writer import execute
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.operator_service import EVENTS, key_of, registry

KEY = {"Authorization": f"Bearer {key_of('ada')}"}
#: What a schema cannot say of valid data: the rules between members, and of schemas, fixes and lines.
BY_RULES = {
    "GET /v1/events": "since is before until",
    "PATCH /v1/groups": "a group comes once",
    "GET /v1/statement": "day is a period by itself",
    "POST /v1/jobs": "a plan is of one kind",
    "POST /v1/download": "since is before until",
    "POST /v1/edits": "each line is an edit",
    "PUT /v1/registry": "names, pointers and patterns",
    "PUT /v1/types/{name}": "names, pointers and patterns",
    "POST /v1/keys": "a name is new",
    "POST /v1/topics": "a name is free",
    "POST /v1/destinations/check": "names, pointers and patterns",
    "POST /v1/previews": "an event type with a table, and samples or a reason",
}


def few(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@schemathesis.serializer("application/x-ndjson")
def _lines(_: Any, value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


@pytest.fixture(scope="module")
def service(kafka: HasBootstrap, postgres: HasDsn) -> Iterator[FastAPI]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield

    known = registry("ada") | {"event_types": {"order_made": {"owner": "shop"}}}
    log = MemoryLog()
    record = {"format": 1, "after": -1, "actor": "ada", "time": "2026-01-01T00:00:00Z", "put": known}
    log.append(orjson.dumps(record))
    with database_beside(postgres.dsn, "template0") as dsn:
        with transaction(dsn) as conn:
            prepare(conn)
        execute(dsn, EVENTS)
        memory = MemoryRegistry(known)
        operators = Operators(memory)
        ingester = IngesterStatus()
        ingester.state = "active"
        app = api(dsn, {"onramp": dsn}, ingester, operators, lifespan=lifespan)
        settings_of_kafka = KafkaSettings(bootstrap=kafka.bootstrap)
        places = KnownPlaces({"onramp": dsn})
        desk = RegistryReader(settings_of_kafka, RegistrySettings(), places, opened=lambda: log)
        add_registry(app, dsn, desk)
        add_samples(app, dsn, desk, preview_seconds=0)
        add_waiting(app, dsn, desk, SourceDsns(env={}), writers=["http://127.0.0.1:1"])
        statements = Statements(settings_of_kafka.brokers, dsn, {"onramp": dsn})
        add_statement(app, statements, memory)
        add_journey(app, Finder(settings_of_kafka.brokers, {}, dsn))
        yield app


@pytest.fixture(scope="module")
def document(service: FastAPI) -> BaseSchema:
    return schemathesis.openapi.from_asgi("/openapi.json", service, headers=KEY)


OPERATIONS = sorted({*NEEDS, *OPEN})


def shows_its_fault(case: schemathesis.Case) -> bool:
    """Return whether the request can show its fault: it has a key, and in a query all is a string."""
    assert case.meta is not None
    wrong = {place for place, part in case.meta.components.items() if part.mode is GenerationMode.NEGATIVE}
    is_exact = all(isinstance(value, str) for value in (case.query or {}).values())
    return is_exact or not wrong <= {ParameterLocation.QUERY, ParameterLocation.HEADER}


def run(document: BaseSchema, operation: str, examples: int) -> None:
    """Call an operation with valid examples of its schema, and with as many invalid ones."""
    method, path = operation.split()
    found = document[path][method]
    checks = document.config.checks
    accepted = ["2xx", "304", "400", "404", "409", "410", "412", *(["422"] if operation in BY_RULES else [])]
    checks.positive_data_acceptance.expected_statuses = accepted
    checks.negative_data_rejection.expected_statuses = [
        "400",
        "401",
        "403",
        "404",
        "412",
        "413",
        "422",
        "428",
    ]
    checks.missing_required_header.expected_statuses = ["422", "428"]
    # What is wrong in a query alone may be a key that is missing, and every call has one.
    excluded = [negative_data_rejection] if method == "GET" else []
    for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
        try:
            cases = found.as_strategy(generation_mode=mode)
        except (InvalidSchema, Unsatisfiable):
            continue

        @given(case=cases)
        @few(examples)
        def ask(case: schemathesis.Case) -> None:
            unseen = [] if shows_its_fault(case) else [negative_data_rejection]
            case.call_and_validate(headers=KEY, excluded_checks=[*excluded, *unseen])

        try:
            ask()
        except (Unsatisfiable, SkipTest):  # nothing could be wrong in what takes nothing
            assert mode is GenerationMode.NEGATIVE


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_service_is_what_its_document_says(document: BaseSchema, operation: str) -> None:
    run(document, operation, 8)


@pytest.mark.full
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_service_is_what_its_document_says_at_length(document: BaseSchema, operation: str) -> None:
    run(document, operation, 100)


def test_every_operation_says_which_key_it_needs_and_what_it_answers(service: FastAPI) -> None:
    document: dict[str, Any] = service.openapi()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "security" in operation, (method, path)
            for status, answer in operation["responses"].items():
                kinds = list(answer.get("content", {}))
                is_problem = int(status) >= 400 and (method, path, status) != ("get", "/readyz", "503")
                assert (kinds == ["application/problem+json"]) == is_problem, (method, path, status)
