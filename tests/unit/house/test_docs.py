"""The documentation says what the code says, and its links lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel

from docs import generate
from services.cli.app import app
from services.writer.persist import landing
from shared import envelope, landing_table, strict_json
from shared.errors import TABLE, UserError
from shared.landing_table import Part
from shared.registry import ApiKey, EventType
from shared.registry.file import load
from tests.unit.house.tree import ROOT, product_files

LEFT_OUT = {".venv", ".git", ".onramp", ".pytest_cache", "node_modules"}
PAGES = sorted(
    page.relative_to(ROOT) for page in ROOT.rglob("*.md") if not LEFT_OUT & set(page.relative_to(ROOT).parts)
)
#: Names of Onramp's variables, wherever they are written.
VARIABLE = re.compile(r"\bONRAMP_[A-Z0-9]+(?:_[A-Z0-9]+)*\b(?![_*])")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
#: A page of ours as code and comments name it, with the heading if one is named.
MENTION = re.compile(r"\b(docs/[\w/-]+\.md)(?:, ([A-Z][\w ]*\w))?")


def prose(page: str) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL))


def anchors(page: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    without_code = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+?)\s*$", without_code, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path, text: str) -> Iterator[str]:
    for target in LINK.findall(prose(text)):
        if target.startswith(("https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text("utf-8") if path else text)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    assert list(dead_links(page, (ROOT / page).read_text("utf-8"))) == []


@pytest.mark.parametrize(
    "text",
    [
        "[a](nowhere.md)",
        "[a](README.md#no-such-heading)",
        "[a](#nowhere)",
        "[a](../outside/x.md)",
        "[a](http://x)",
    ],
)
def test_a_dead_link_is_seen(text: str) -> None:
    assert list(dead_links(Path("README.md"), text))


@pytest.mark.parametrize("path", generate.PAGES)
def test_a_generated_page_is_what_the_code_says(path: str) -> None:
    written = (ROOT / path).read_text("utf-8")
    assert written == generate.PAGES[path](), "the code has changed: run `python -m docs.generate`"


@pytest.mark.parametrize("code", TABLE)
def test_every_error_code_is_documented(code: str) -> None:
    assert f"| `{code}` |" in (ROOT / "docs/errors.md").read_text("utf-8")


def test_every_setting_has_a_description() -> None:
    for _, settings in generate.settings_classes():
        for name, field in settings.model_fields.items():
            assert field.description, f"{settings.__name__}.{name}"


def test_every_verb_is_documented_with_its_options() -> None:
    page = (ROOT / "docs/cli.md").read_text("utf-8")
    for name, command in generate.verbs(typer.main.get_command(app), "onramp"):
        assert f"## {name}\n" in page
        assert command.help
        for option in command.params:
            assert all(name in page for name in option.opts if name.startswith("-"))
        if not hasattr(command, "commands"):
            assert name in command.help, f"the help of {name} shows no example"


def fenced(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_registrys_example_is_a_registry(tmp_path: Path) -> None:
    (tmp_path / "onramp.yaml").write_text("".join(fenced("docs/registry.md", "yaml")), "utf-8")
    snapshot = load(tmp_path / "onramp.yaml")
    assert set(snapshot.event_types) == {"order_placed"}
    assert set(snapshot.keys) == {"shop"}
    assert [grant.table for grant in snapshot.grants] == ["*", "orders_*"]
    assert len(snapshot.contracts) == 1


@pytest.mark.parametrize(("model", "heading"), [(EventType, "event type"), (ApiKey, "key")])
def test_every_field_of_the_registry_is_documented(model: type[BaseModel], heading: str) -> None:
    page = (ROOT / "docs/registry.md").read_text("utf-8")
    table = page[page.index(f"| field of {'an' if heading[0] == 'e' else 'a'} {heading} |") :].split("\n\n")[
        0
    ]
    named = set(re.findall(r"`(\w+)`", "\n".join(line.split("|")[1] for line in table.splitlines())))
    assert named == {field.alias or name for name, field in model.model_fields.items()}


def test_the_examples_are_envelopes() -> None:
    (in_the_page,) = fenced("docs/path-of-an-event.md", "json")
    sent = [
        body for shell in fenced("README.md", "sh") for body in re.findall(r"-d '(.*?)'", shell, re.DOTALL)
    ]
    in_curl, bad = sent  # the second is there to be rejected
    with pytest.raises(UserError, match="RFC3339"):
        envelope.parse(bad.encode())
    for example in (in_the_page, in_curl):
        body = example.encode()
        strict_json.check_depth(body, strict_json.loads(body))
        assert envelope.parse(body).event_name == "order_placed"


def test_the_landing_tables_columns_are_the_documented_ones() -> None:
    page = (ROOT / "docs/path-of-an-event.md").read_text("utf-8")
    table = page[page.index("| column | type | from |") :].split("\n\n")[0]
    assert table.splitlines()[2:] == [
        f"| `{c.name}` | `{c.type}`{', primary key' if c.part is Part.KEY else ''} | {c.comes_from} |"
        for c in landing_table.COLUMNS
    ]
    assert landing.SOURCES.keys() == {c.name for c in landing_table.COLUMNS}


SOURCES = sorted(
    [
        *(str(file) for file in product_files()),
        *(str(page) for page in PAGES),
        "docker-compose.yml",
        "Makefile",
        "deploy/ingest.Dockerfile",
        "deploy/writer.Dockerfile",
    ]
)


@pytest.mark.parametrize("file", SOURCES)
def test_every_variable_that_is_named_is_known(file: str) -> None:
    named = set(VARIABLE.findall((ROOT / file).read_text("utf-8")))
    prefixes = {name.rpartition("_")[0] for name in generate.variables()}
    assert named - generate.variables() - prefixes == set()


@pytest.mark.parametrize("file", [*map(str, product_files()), "pyproject.toml"])
def test_a_page_that_the_code_names_exists(file: str) -> None:
    for page, heading in MENTION.findall((ROOT / file).read_text("utf-8")):
        assert (ROOT / page).is_file(), f"{file} names {page}"
        if heading:
            assert re.sub(r"\W+", "-", heading.lower()) in anchors((ROOT / page).read_text("utf-8")), heading


@pytest.mark.parametrize("file", [*map(str, product_files()), *map(str, PAGES)])
def test_only_pages_of_this_repository_are_named(file: str) -> None:
    """Notes that a reader cannot open explain nothing."""
    text = (ROOT / file).read_text("utf-8")
    assert not re.search(r"\b(DESIGN|STYLE|SPARK|DEPENDENCIES)\.md\b|\bTORTURE\b", text)


@pytest.mark.parametrize("record", sorted((ROOT / "docs/adr").glob("[0-9]*.md")), ids=lambda path: path.name)
def test_a_decision_says_what_was_rejected(record: Path) -> None:
    text = record.read_text("utf-8")
    assert re.match(r"# \d+\. \S", text)
    assert record.name.startswith(text[2:6].split(".")[0].zfill(4))
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Context", "Decision", "Rejected", "Consequences"]
    assert len(text.splitlines()) <= 80
