"""The chart deploy/helm/onramp as Helm renders it; `python -m tests.unit.deploy.helm_chart` writes it.

Helm is no part of the tests' machines, so the manifests are stored, with the checksum of the chart's files.
"""

import hashlib
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.unit.conventions.tree import ROOT

CHART: Final = ROOT / "deploy/helm/onramp"
Manifest = dict[str, Any]
#: Components that are off by default.
OPTIONAL: Final = ("capture", "merger", "transform", "lake", "compaction", "tracer")
#: By the name of the stored file: the values.
VARIANTS: Final = {
    "default": [],
    "everything": [
        *(f"{name}.enabled=true" for name in OPTIONAL),
        "monitoring.enabled=true",
        *("lakeStorage.url=s3://company-events/lake", "lakeStorage.existingSecret=onramp-lake"),
        *("lakeStorage.endpoint=https://s3.example", "tracer.lakeTable=probes"),
        *("kafka.existingSecret=onramp-kafka", "gateway.tlsSecret=onramp-tls", "database.hasDatabases=true"),
    ],
}
_FOLDER: Final = Path(__file__).with_name("helm")
_HEADER: Final = "# Written by `python -m tests.unit.deploy.helm_chart` from a chart with the checksum "
#: A Helm that Go builds assumes an old one.
_KUBERNETES: Final = "1.32"


def checksum() -> str:
    """Return the SHA-256 of the chart's files, rules included."""
    digest = hashlib.sha256()
    files = [*CHART.glob("*.yaml"), *CHART.glob("templates/*"), *CHART.glob("rules/*.yml")]
    for file in sorted(files):
        digest.update(f"{file.relative_to(CHART)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def stored(variant: str) -> str:
    """Return the stored text of a variant."""
    return (_FOLDER / f"{variant}.yaml").read_text("utf-8")


def stored_checksum(variant: str) -> str:
    """Return the checksum of the chart from which a variant was rendered."""
    return stored(variant).splitlines()[0].removeprefix(_HEADER)


@cache
def manifests(variant: str) -> list[Manifest]:
    """Return the stored manifests of a variant, read once: a caller that changes them copies them."""
    return [each for each in yaml.safe_load_all(stored(variant)) if each]


def helm() -> str | None:
    """Return the program `helm`, or None."""
    return shutil.which("helm")


def lint(program: str) -> str:
    """Return the output of a strict lint.  Raises `CalledProcessError`."""
    return _run(program, "lint", "--strict", "--kube-version", _KUBERNETES)


def render(program: str, variant: str) -> str:
    """Return a variant as Helm renders it.  Raises `CalledProcessError`."""
    values = [each for value in VARIANTS[variant] for each in ("--set", value)]
    return _run(program, "template", "onramp", "--kube-version", _KUBERNETES, *values)


def _run(program: str, verb: str, *arguments: str) -> str:
    command = [program, verb, *arguments, str(CHART)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Write all variants."""
    program = helm()
    if program is None:
        sys.exit("helm is not on the PATH: go install helm.sh/helm/v3/cmd/helm@v3.18.6")
    _FOLDER.mkdir(exist_ok=True)
    for variant in VARIANTS:
        text = f"{_HEADER}{checksum()}\n{render(program, variant)}"
        (_FOLDER / f"{variant}.yaml").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
