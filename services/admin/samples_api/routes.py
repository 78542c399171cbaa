"""All routes of samples."""

from fastapi import FastAPI

from services.admin.samples_api.good import add_good
from services.admin.samples_api.infer import add_infer
from services.admin.samples_api.previews import Previews, add_previews
from services.admin.samples_api.wizard import add_preflight
from services.ops.registry.registry_reader import RegistryReader


def add_samples(app: FastAPI, dsn: str, desk: RegistryReader, *, preview_seconds: float = 5.0) -> None:
    """Add the routes; who sees values is logged in the control database at `dsn`."""
    add_good(app, dsn, desk)
    add_infer(app, desk)
    add_preflight(app, desk)
    add_previews(app, Previews(dsn, desk, seconds=preview_seconds))
