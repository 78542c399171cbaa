"""Finds the DSN of a source in a folder of files or in the environment.

A file has a variable's name, and its value as content. It is read at each use, so a source can be added or
get another password while an agent runs.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import psycopg2
from psycopg2.extensions import make_dsn, parse_dsn

from shared.registry.sources import PASSWORD_SUFFIX


class SourceDsns:
    """DSNs by variable; files have priority over the environment."""

    def __init__(self, folder: Path | None = None, env: Mapping[str, str] = os.environ) -> None:
        self._folder = folder
        self._env = env

    def find(self, variable: str) -> str:
        """Return a DSN, with the password of `…_PASSWORD` unless it has its own; empty if missing."""
        dsn, password = self._value(variable), self._value(variable + PASSWORD_SUFFIX)
        if not dsn or not password or password_in(dsn):
            return dsn
        try:
            return make_dsn(dsn, password=password)
        except psycopg2.ProgrammingError:  # the connection attempt reports a malformed DSN
            return dsn

    def _value(self, variable: str) -> str:
        file = self._folder and self._folder / variable
        if file and file.is_file():
            return file.read_text("utf-8").strip()
        return self._env.get(variable, "")


def password_in(dsn: str) -> str:
    """Return the password in a DSN; empty if it is missing or the DSN is malformed."""
    try:
        return str(parse_dsn(dsn).get("password", ""))
    except psycopg2.ProgrammingError:
        return ""
