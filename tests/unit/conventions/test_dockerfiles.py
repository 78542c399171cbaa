"""The structure of the Dockerfiles; the files that they copy are enough to import the service.

`make test-compose` builds and runs them; here their promises are read from their text.
"""

import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import packages_distributions
from pathlib import Path
from shutil import copy2, copytree

import pytest

from docs import generate
from tests.unit.conventions.tree import ROOT, report

SERVICES = {
    "ingest": "services.ingest",
    "writer": "services.writer",
    "admin": "services.admin",
    "connect": "stack.connect_worker",
}
#: What is replaced in a Dockerfile, by what, and a part of the message that must follow.
MISTAKES = [
    ("python:3.11.14-slim-bookworm", "python", "not pinned"),
    ("python:3.11.14-slim-bookworm", "python:latest", "not pinned"),
    ("astral-sh/uv:0.13.8", "astral-sh/uv", "not pinned"),
    (" --locked", "", "must use the lock file"),
    (" --no-default-groups", "", "developers' groups"),
    ("pyproject.toml uv.lock", "pyproject.toml", "lock file is not copied"),
    ("USER 10001:10001", "", "root"),
    ("USER 10001:10001", "USER root", "root"),
    ("HEALTHCHECK", "LABEL", "health"),
    ('ENTRYPOINT ["python", "-m", "', 'ENTRYPOINT ["python", "-m", "x.', "does not start"),
    ("PYTHONPATH=/app", "PYTHONPATH=/", "PYTHONPATH"),
    ("_PORT=80", "_PROT=80", "is no setting"),
]


#: The admin service and its neighbours in one image, with the modules that they import for a lake alone.
ADMIN = (
    "services.admin.serve, services.admin.audits.worker, services.ops.audit.lake, services.ops.journey.lake, "
    "services.ops.lake.delta_query, services.tracer.delta_rows, services.lake.compaction.__main__"
)
#: Imports modules on a machine without some packages.
_WITHOUT = """
import sys
class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing)
import {modules}
"""


@dataclass(frozen=True)
class Stage:
    base: str
    name: str
    steps: list[tuple[str, str]]

    def all(self, instruction: str) -> list[str]:
        return [rest for word, rest in self.steps if word == instruction]

    @property
    def env(self) -> dict[str, str]:
        return dict(pair.split("=", 1) for rest in self.all("ENV") for pair in rest.split())


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile; continued lines are one, comments none."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    found: list[Stage] = []
    for line in re.sub(r"\\\n\s*", " ", lines).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found.append(Stage(base, name, []))
        elif word:
            found[-1].steps.append((word, rest.strip()))
    return found


def errors(text: str, module: str) -> list[str]:
    """Return the faults in the Dockerfile of the service that `module` starts."""
    return [*build_errors(stages(text)), *image_errors(stages(text)[-1], module)]


def build_errors(all_stages: list[Stage]) -> list[str]:
    """Return faults of the build: pins, the lock file, stages."""
    names = {stage.name for stage in all_stages}
    bases = [stage.base for stage in all_stages if stage.base not in names]
    said = [f"{base} is not pinned" for base in bases if not re.search(r":\d+\.\d+\.\d+", base)]
    steps = [step for stage in all_stages for step in stage.all("RUN")]
    syncs = [set(step.split()) for step in steps if "uv sync" in step]
    if not syncs or any(not {"--locked", "--no-default-groups"} <= sync for sync in syncs):
        said.append("uv sync must use the lock file and leave out the developers' groups")
    if any("pip install" in step for step in steps):
        said.append("packages come from the lock file, not by pip")
    if len(all_stages) < 3:
        said.append("the tools of the build stay in the image")
    if not any(copied.startswith("pyproject.toml uv.lock") for s in all_stages for copied in s.all("COPY")):
        said.append("the lock file is not copied")
    return said


def image_errors(last: Stage, module: str) -> list[str]:
    """Return faults of the image: its user, health check, entry point and environment."""
    said = []
    user = last.all("USER")
    if not user or user[-1].split(":")[0] in {"0", "root"}:
        said.append("it runs as root")
    # Kafka Connect answers its version at /, and has no page of its health alone.
    path = "'/'" if module == "stack.connect_worker" else "/healthz"
    if not last.all("HEALTHCHECK") or path not in last.all("HEALTHCHECK")[-1]:
        said.append("nobody asks for its health")
    if last.all("ENTRYPOINT") != [f'["python", "-m", "{module}"]']:
        said.append(f"it does not start {module}")
    if last.env.get("PYTHONPATH") != "/app" or last.all("WORKDIR") != ["/app"]:
        said.append("PYTHONPATH is not the project's folder")
    known = generate.variables()
    return said + [f"{v} is no setting" for v in last.env if v.startswith("ONRAMP_") and v not in known]


def dockerfile(service: str) -> str:
    return (ROOT / f"deploy/{service}.Dockerfile").read_text("utf-8")


def test_the_dockerfiles_keep_their_promises() -> None:
    offenders = [
        f"deploy/{service}.Dockerfile: {error}"
        for service, module in SERVICES.items()
        for error in errors(dockerfile(service), module)
    ]
    assert offenders == [], report(offenders)


def test_every_planted_mistake_is_noticed() -> None:
    missed = []
    for service, module in SERVICES.items():
        text = dockerfile(service)
        for pattern, replacement, message in MISTAKES:
            assert pattern in text
            if message not in "\n".join(errors(text.replace(pattern, replacement), module)):
                missed.append(
                    f"deploy/{service}.Dockerfile: {pattern!r} replaced by {replacement!r}: {message}"
                )
    assert missed == [], report(missed)


@pytest.mark.parametrize("service", SERVICES)
def test_copied_files_are_enough_to_import_the_service(service: str, tmp_path: Path) -> None:
    _copy(service, tmp_path)
    package = tmp_path / SERVICES[service].replace(".", "/")
    files = [*package.rglob("*.py")] or [package.with_suffix(".py")]
    modules = [".".join(file.relative_to(tmp_path).with_suffix("").parts) for file in files]
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    answer = _run(tmp_path, "-c", program, *modules)
    assert answer.returncode == 0, answer.stderr


def test_the_admin_image_has_what_apply_needs(tmp_path: Path) -> None:
    _copy("admin", tmp_path)
    (tmp_path / "onramp.yaml").write_text("keys: []\n")
    nowhere = ["--kafka", "127.0.0.1:1", "--dsn", "postgresql://127.0.0.1:1/x"]
    answer = _run(tmp_path, "-m", "services.cli", "apply", "onramp.yaml", *nowhere)
    assert answer.returncode == 3, answer.stderr
    assert "cannot be reached" in answer.stderr


def _copy(service: str, tmp_path: Path) -> None:
    for copied in stages(dockerfile(service))[-1].all("COPY"):
        if not copied.startswith("--from="):
            source, target = copied.split()
            assert not _is_left_out(source), f".dockerignore leaves {source} out"
            (tmp_path / target).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                copytree(ROOT / source, tmp_path / target)
            else:
                copy2(ROOT / source, tmp_path / target)


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={"PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def _is_left_out(source: str) -> bool:
    lines = (ROOT / ".dockerignore").read_text("utf-8").split("\n")
    kept = [line[1:] for line in lines if line.startswith("!")]
    assert "*" in lines
    return not any(fnmatch(source, name) or source.startswith(f"{name}/") for name in kept)


def test_copy_sources_of_every_stage_exist_and_are_not_ignored() -> None:
    offenders = []
    for service in SERVICES:
        copies = [copied for stage in stages(dockerfile(service)) for copied in stage.all("COPY")]
        for source in (each for copied in copies if "--from=" not in copied for each in copied.split()[:-1]):
            if not (ROOT / source).exists():
                offenders.append(f"deploy/{service}.Dockerfile: there is no {source}")
            elif _is_left_out(source):
                offenders.append(f"deploy/{service}.Dockerfile: .dockerignore leaves {source} out")
    assert offenders == [], report(offenders)


def test_stages_and_extras_that_are_named_exist() -> None:
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    )
    offenders = []
    for service in SERVICES:
        text = dockerfile(service)
        names = {stage.name for stage in stages(text) if stage.name}
        unknown = set(re.findall(r"--from=(\S+)", text)) - names
        offenders += [f"deploy/{service}.Dockerfile: there is no stage {name}" for name in unknown]
        unknown = set(re.findall(r"--extra (\S+)", text)) - extras
        offenders += [f"deploy/{service}.Dockerfile: pyproject.toml has no extra {name}" for name in unknown]
    assert offenders == [], report(offenders)


@pytest.mark.parametrize(
    ("service", "modules"),
    [("writer", "services.writer.__main__"), ("writer", "services.transform.__main__"), ("admin", ADMIN)],
)
def test_an_image_has_the_packages_of_the_services_that_it_runs(service: str, modules: str) -> None:
    there = _locked(re.findall(r"--extra (\S+)", dockerfile(service)))
    missing = {
        name
        for name, packages in packages_distributions().items()
        if not {each.lower().replace("_", "-") for each in packages} & there
    }
    assert "pytest" in missing
    answer = _run(ROOT, "-c", _WITHOUT.format(missing=missing, modules=modules))
    assert answer.returncode == 0, answer.stderr


def _locked(extras: list[str]) -> set[str]:
    """Return the packages that the lock file names for the project with extras."""
    packages = {
        each["name"]: each for each in tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]
    }
    project = packages["onramp"]
    optional = project["optional-dependencies"]
    waiting = [*project["dependencies"], *(each for extra in extras for each in optional[extra])]
    found: set[str] = set()
    while waiting:
        each = waiting.pop()
        package = packages[each["name"]]
        for extra in each.get("extra", []):
            waiting += package["optional-dependencies"][extra]
        if each["name"] not in found:
            found.add(each["name"])
            waiting += package.get("dependencies", [])
    return found


def test_the_writer_gets_a_java_for_spark() -> None:
    last = stages(dockerfile("writer"))[-1]
    assert any("openjdk-17-jre-headless" in step for step in last.all("RUN"))


def test_uv_is_the_version_that_make_installs() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    version = re.search(r"^UV_VERSION := (\S+)$", makefile, re.MULTILINE)
    assert version
    for service in SERVICES:
        assert stages(dockerfile(service))[0].base == f"ghcr.io/astral-sh/uv:{version[1]}"
