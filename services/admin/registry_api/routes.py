"""All routes of the registry."""

from fastapi import FastAPI

from services.admin.registry_api.access import add_access
from services.admin.registry_api.keys import add_keys
from services.admin.registry_api.topics import add_topics
from services.admin.registry_api.transforms import add_transforms
from services.admin.registry_api.types import add_types
from services.admin.registry_api.whole import add_whole
from services.ops.registry.registry_reader import RegistryReader
from services.ops.transforms.reader import TransformReader


def add_registry(
    app: FastAPI, dsn: str, desk: RegistryReader, transforms: TransformReader | None = None
) -> None:
    """Add the routes; actions are logged in the control database at `dsn`."""
    add_whole(app, dsn, desk)
    add_types(app, dsn, desk)
    add_keys(app, dsn, desk)
    add_access(app, desk)
    add_topics(app, dsn, desk)
    add_transforms(app, dsn, desk, transforms or TransformReader(desk.kafka.brokers))
