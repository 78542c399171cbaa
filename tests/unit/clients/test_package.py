"""The client is a package of its own: it imports no service, and is built and installed alone."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from clients.python.onramp_client import VERSION
from tests.unit.conventions.tree import ROOT

PROJECT = ROOT / "clients" / "python"
MODULES = sorted((PROJECT / "onramp_client").glob("*.py"))
ALONE = """
import sys
from onramp_client import AsyncOnramp, Onramp
from onramp_client.lambda_handler import handler_for
import onramp_client.spool
print(sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"__main__"}))
"""


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.name)
def test_a_module_imports_the_standard_library_and_its_neighbours(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            assert {name.name.partition(".")[0] for name in node.names} <= sys.stdlib_module_names
        if isinstance(node, ast.ImportFrom):
            assert node.level == 1 or (node.module or "").partition(".")[0] in sys.stdlib_module_names


def alone(folder: Path) -> str:
    """The modules that a Python without site-packages loads for the client in `folder`."""
    program = f"import sys; sys.path.insert(0, {str(folder)!r})\n{ALONE}"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], check=True, capture_output=True, text=True, timeout=200
    ).stdout.strip()


def test_it_runs_where_nothing_is_installed() -> None:
    assert alone(PROJECT) == "['onramp_client']"


def test_its_version_is_written_the_same_everywhere() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == VERSION
    assert project["dependencies"] == []


def test_it_is_built_and_installed_by_its_own_project(tmp_path: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".onramp" / "tools" / "bin"))
    if uv is None:
        pytest.skip("no uv here: `make` installs one where it is missing")
    shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_PYTHON": sys.executable}
    for command in (
        ["build", "--offline", "--wheel", "--out-dir", str(tmp_path / "dist"), str(tmp_path / "project")],
        ["pip", "install", "--offline", "--no-deps", "--target", str(tmp_path / "target")],
    ):
        wheels = map(str, (tmp_path / "dist").glob("*.whl"))
        subprocess.run([uv, *command, *wheels], check=True, env=environment, cwd=tmp_path, timeout=200)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    packed = {name for name in names if name.startswith("onramp_client/") and not name.endswith("/")}
    assert packed == {f"onramp_client/{file.name}" for file in MODULES} | {"onramp_client/py.typed"}
    assert alone(tmp_path / "target") == "['onramp_client']"
