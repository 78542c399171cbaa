"""Schemas of the kinds of the chart: those of Kubernetes, and the Prometheus operator's custom resources.

They are vendored: without a cluster, nothing else knows which fields a manifest may have.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

_FILES: Final = [
    json.loads((Path(__file__).parent / "vendor" / name).read_text("utf-8"))
    for name in ("kubernetes-1.32.json", "prometheus-operator-0.82.json")
]
_DEFINITIONS: Final = {name: each for file in _FILES for name, each in file["definitions"].items()}
#: The definition of each kind, by `apiVersion/kind`.
KINDS: Final[dict[str, str]] = {kind: name for file in _FILES for kind, name in file["kinds"].items()}


def schema(kind: str) -> dict[str, Any]:
    """Return the complete schema of a kind, by `apiVersion/kind`."""
    return {"$ref": f"#/definitions/{KINDS[kind]}", "definitions": _DEFINITIONS}


@cache
def validator(kind: str) -> Any:
    """Return the validator of a kind."""
    return jsonschema_rs.validator_for(schema(kind))


def write_schemas(folder: Path) -> str:
    """Write each schema as a file, and return their pattern for kubeconform's `-schema-location`."""
    for kind in KINDS:
        *group, version, name = kind.split("/")
        words = [name, *(each.partition(".")[0] for each in group), version]
        (folder / f"{'-'.join(words).lower()}.json").write_text(json.dumps(schema(kind)), "utf-8")
    return f"{folder}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
