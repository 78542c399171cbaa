"""docker-compose.yml as Compose reads it: variables have values of an environment, else their defaults."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tests.unit.conventions.tree import ROOT

Compose = dict[str, Any]
TEXT = (ROOT / "docker-compose.yml").read_text("utf-8")
_VARIABLE = re.compile(r"\$(\$|\{(\w+)(?::-([^}]*))?\})")


def load(environment: Mapping[str, str] | None = None) -> Compose:
    """Return the file with `${NAME:-default}` replaced and `$$` unescaped in every text."""
    compose: Compose = _interpolate(yaml.safe_load(TEXT), environment or {})
    return compose


def _interpolate(node: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: _interpolate(value, environment) for key, value in node.items()}
    if isinstance(node, list):
        return [_interpolate(each, environment) for each in node]
    if not isinstance(node, str):
        return node
    return _VARIABLE.sub(
        lambda match: "$" if match[1] == "$" else environment.get(match[2]) or match[3] or "", node
    )
