"""The packages of each service by layer, from their imports, and the page that lists them."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SERVICES: Final = ("ingest", "writer", "cdc", "ops", "admin", "tracer", "transform", "lake", "cli")
#: Folders in no service, or that import several: they have no layers.
BESIDE: Final = (
    "shared",
    "shared/contracts",
    "shared/kafka_read",
    "shared/spark",
    "shared/registry",
    "stack",
    "loadtest",
    "clients/python/onramp_client",
)

Graph = Mapping[str, set[str]]

_PAGE: Final = """\
# Layers

Made by `python -m docs.generate` from the docstrings of the folders and the imports of the files; do not
edit it by hand. A *package* is a folder or file of a service. It imports only from lower layers, and a test
enforces this: a change in a package can affect that package and those above it. The flow of each service is
one function: `accept` of the gateway, `write_batch` of the writer's driver and `settle` of its tasks
([the path of an event](path-of-an-event.md)).
"""


@cache
def modules(service: str) -> Graph:
    """Return the imports of each module within its service; names are below `services.<service>`."""
    folder = ROOT / "services" / service
    files = {_name(folder, file): file for file in folder.rglob("*.py") if file.name != "__init__.py"}
    return {name: set(_imported(service, file, files)) for name, file in files.items()}


def packages(service: str) -> Graph:
    """Return the imports of each package, a folder or a file next to the folders, within its service."""
    found: dict[str, set[str]] = {}
    for module, imported in modules(service).items():
        package = package_of(module)
        found.setdefault(package, set()).update(package_of(each) for each in imported)
        found[package].discard(package)
    return found


def package_of(module: str) -> str:
    """The first folder of a module's name, or the name of one that is in no folder."""
    return module.split(".", 1)[0]


def layers(graph: Graph) -> list[list[str]]:
    """The nodes by layer, the lowest first: each imports from layers below its own only.

    Raises `graphlib.CycleError` when some import each other in a circle.
    """
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    found = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        found.append(ready)
        sorter.done(*ready)
    return found


def layers_page() -> str:
    """docs/layers.md."""
    return "\n".join([_PAGE, *(_section(service) for service in SERVICES), _beside()])


def _section(service: str) -> str:
    graph = packages(service)
    lines = [f"## services/{service}", "", "| layer | package | purpose | files |", "|---|---|---|---|"]
    levels = list(enumerate(layers(graph)))
    for level, names in reversed(levels):
        lines += [
            f"| {level} | {_link(service, name)} | {_purpose(service, name)} | {_files(service, name)} |"
            for name in names
        ]
    return "\n".join(lines) + "\n"


def _beside() -> str:
    lines = ["## Other folders", "", "| folder | purpose | files |", "|---|---|---|"]
    for folder in BESIDE:
        path = ROOT / folder
        lines.append(f"| [{folder}](../{folder}) | {_said(path / '__init__.py')} | {_names(path)} |")
    return "\n".join(lines) + "\n"


def _link(service: str, package: str) -> str:
    path = f"services/{service}/{package}"
    return f"[{package}](../{path})" if (ROOT / path).is_dir() else f"[{package}.py](../{path}.py)"


def _purpose(service: str, package: str) -> str:
    path = ROOT / "services" / service / package
    return _said(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))


def _said(file: Path) -> str:
    """The first paragraph of a module's docstring, fit for a table."""
    said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return said.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def _files(service: str, package: str) -> str:
    path = ROOT / "services" / service / package
    return _names(path) if path.is_dir() else ""


def _names(folder: Path) -> str:
    """The modules of a folder, then its folders of SQL."""
    names = sorted(f.stem for f in folder.glob("*.py") if f.name != "__init__.py")
    return ", ".join([*names, *sorted({f"{f.parent.name}/" for f in folder.glob("*/*.sql")})])


def _name(folder: Path, file: Path) -> str:
    return ".".join(file.relative_to(folder).with_suffix("").parts)


def _imported(service: str, file: Path, known: Mapping[str, Path]) -> Iterator[str]:
    prefix = f"services.{service}."
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and f"{node.module}.".startswith(prefix):
            within = f"{node.module}.".removeprefix(prefix).rstrip(".")
            # `from services.writer.settle import ledger` imports a module, or a name of one.
            named = [f"{within}.{alias.name}".lstrip(".") for alias in node.names]
            yield from (name for name in [within, *named] if name in known)
