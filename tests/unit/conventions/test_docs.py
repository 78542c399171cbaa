"""The documentation agrees with the code, and its links have targets."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel

from docs import generate
from services.cli.app import app
from services.writer.persist import landing_tables
from shared import envelope, landing_columns, strict_json
from shared.errors import TABLE, UserError
from shared.landing_columns import Part
from shared.registry import ApiKey, EventType
from shared.registry.file import load
from shared.registry.transforms import Lookup, Transform
from tests.unit.conventions.tree import ROOT, line_at, pages, product_files, report, text_of

#: Names of Onramp's variables, wherever they are written.
VARIABLE = re.compile(r"\bONRAMP_[A-Z0-9]+(?:_[A-Z0-9]+)*\b(?![_*])")
#: A page's code between fences.
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
#: A page of ours as code and comments name it, with the heading if one is named.
MENTION = re.compile(r"\b(docs/[\w/-]+\.md)(?:, ([A-Z][\w ]*\w))?")
MAX_ADR_LINES = 80
#: Notes that are not part of this repository.
FOREIGN_NOTE = re.compile(r"\b(DESIGN|STYLE|SPARK|DEPENDENCIES)\.md\b|\bTORTURE\b")
DEAD_LINKS = [
    "[a](nowhere.md)",
    "[a](README.md#no-such-heading)",
    "[a](#nowhere)",
    "[a](../outside/x.md)",
    "[a](http://x)",
]


def prose(page: str) -> str:
    """Return a page without its code; its lines keep their numbers."""
    return re.sub(r"`[^`\n]*`", "", CODE.sub(lambda code: "\n" * code[0].count("\n"), page))


def anchors(page: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+?)\s*$", CODE.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def anchors_of(page: Path) -> set[str]:
    return anchors(text_of(page))


def dead_links(page: Path, text: str) -> Iterator[str]:
    without_code = prose(text)
    for link in LINK.finditer(without_code):
        path, _, anchor = link[1].partition("#")
        if link[1].startswith(("https://", "mailto:")):
            continue
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists():
            yield f"{page}:{line_at(without_code, link.start())}: {link[1]}: there is no such file"
        elif anchor and anchor not in (anchors_of(file) if path else anchors(text)):
            yield f"{page}:{line_at(without_code, link.start())}: {link[1]}: the page has no such heading"


def test_links_lead_somewhere() -> None:
    offenders = [link for page in pages() for link in dead_links(page, text_of(page))]
    assert offenders == [], report(offenders)


def test_every_dead_link_is_noticed() -> None:
    assert [text for text in DEAD_LINKS if not list(dead_links(Path("README.md"), text))] == []


def test_generated_pages_are_what_the_code_says() -> None:
    offenders = [
        f"{path}: the code has changed: run `python -m docs.generate`"
        for path, generated in generate.PAGES.items()
        if text_of(Path(path)) != generated()
    ]
    assert offenders == [], report(offenders)


def test_every_error_code_is_documented() -> None:
    page = text_of(Path("docs/errors.md"))
    assert [code for code in TABLE if f"| `{code}` |" not in page] == []


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_pages_state_the_number_of_alerts(page: str) -> None:
    rules = (ROOT / "deploy/prometheus/rules").glob("*.yml")
    alerts = sum(text_of(file).count("- alert: ") for file in rules)
    assert [int(n) for n in re.findall(r"(\d+)\s+alerts", text_of(Path(page)))] == [alerts]


def test_every_setting_has_a_description() -> None:
    for _, settings in generate.settings_classes():
        for name, field in settings.model_fields.items():
            assert field.description, f"{settings.__name__}.{name}"


def test_every_verb_is_documented_with_its_options() -> None:
    page = text_of(Path("docs/cli.md"))
    for name, command in generate.verbs(typer.main.get_command(app), "onramp"):
        assert f"## {name}\n" in page
        assert command.help
        for option in command.params:
            assert all(name in page for name in option.opts if name.startswith("-"))
        if not hasattr(command, "commands"):
            assert name in command.help, f"the help of {name} shows no example"


def fenced(page: str, language: str) -> list[str]:
    text = text_of(Path(page))
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_registrys_example_is_a_registry(tmp_path: Path) -> None:
    (tmp_path / "onramp.yaml").write_text("".join(fenced("docs/registry.md", "yaml")), "utf-8")
    snapshot = load(tmp_path / "onramp.yaml")
    assert set(snapshot.event_types) == {"order_placed"}
    assert set(snapshot.keys) == {"shop"}
    assert [grant.table for grant in snapshot.grants] == ["*", "orders_*"]
    assert len(snapshot.contracts) == 1


@pytest.mark.parametrize(
    ("model", "heading"),
    [(EventType, "event type"), (ApiKey, "key"), (Transform, "transform"), (Lookup, "lookup")],
)
def test_every_field_of_the_registry_is_documented(model: type[BaseModel], heading: str) -> None:
    page = text_of(Path("docs/registry.md"))
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
    page = text_of(Path("docs/path-of-an-event.md"))
    table = page[page.index("| column | type | from |") :].split("\n\n")[0]
    assert table.splitlines()[2:] == [
        f"| `{c.name}` | `{c.type}`{', primary key' if c.part is Part.KEY else ''} | {c.comes_from} |"
        for c in landing_columns.COLUMNS
    ]
    assert landing_tables.SOURCES.keys() == {c.name for c in landing_columns.COLUMNS}


def unknown_variables(files: Iterable[Path]) -> Iterator[str]:
    known = generate.variables()
    known |= {name.rpartition("_")[0] for name in known}
    for file in files:
        for found in VARIABLE.finditer(text_of(file)):
            if found[0] not in known:
                line = line_at(text_of(file), found.start())
                yield f"{file}:{line}: {found[0]} is no setting: correct its name"


def test_every_variable_that_is_named_is_a_setting() -> None:
    others = ("docker-compose.yml", "Makefile", "deploy/ingest.Dockerfile", "deploy/writer.Dockerfile")
    offenders = list(unknown_variables([*product_files(), *pages(), *map(Path, others)]))
    assert offenders == [], report(offenders)


def test_pages_that_the_code_names_exist() -> None:
    offenders = []
    for file in [*product_files(), Path("pyproject.toml")]:
        for found in MENTION.finditer(text_of(file)):
            page, heading = found.groups()
            place = f"{file}:{line_at(text_of(file), found.start())}"
            if not (ROOT / page).is_file():
                offenders.append(f"{place}: there is no {page}")
            elif heading and re.sub(r"\W+", "-", heading.lower()) not in anchors_of(Path(page)):
                offenders.append(f"{place}: {page} has no heading {heading!r}")
    assert offenders == [], report(offenders)


def test_only_pages_of_this_repository_are_named() -> None:
    """Notes that a reader cannot open explain nothing."""
    offenders = [
        f"{file}:{line_at(text_of(file), found.start())}: {found[0]} is no page of this repository"
        for file in [*product_files(), *pages()]
        for found in FOREIGN_NOTE.finditer(text_of(file))
    ]
    assert offenders == [], report(offenders)


def decision_faults(name: str, text: str) -> Iterator[str]:
    number = re.match(r"# (\d+)\. \S", text)
    if not number or not name.startswith(number[1].zfill(4)):
        yield f"docs/adr/{name}:1: the title begins with the number of the file's name"
    if re.findall(r"^## (.+)$", text, re.MULTILINE) != ["Context", "Decision", "Rejected", "Consequences"]:
        yield f"docs/adr/{name}: its sections are Context, Decision, Rejected and Consequences"
    if len(text.splitlines()) > MAX_ADR_LINES:
        yield f"docs/adr/{name}:{MAX_ADR_LINES + 1}: half a page is enough"


def test_decisions_say_what_was_rejected() -> None:
    records = [page for page in pages() if page.match("docs/adr/[0-9]*.md")]
    assert records
    offenders = [fault for record in records for fault in decision_faults(record.name, text_of(record))]
    assert offenders == [], report(offenders)


def index_of_decisions(records: dict[str, str]) -> list[str]:
    """Return the lines that the index of decisions has to have, numbered without gaps."""
    titles = [(name, text.splitlines()[0].partition(". ")[2]) for name, text in sorted(records.items())]
    return [f"{number}. [{title}]({name})" for number, (name, title) in enumerate(titles, start=1)]


def test_decisions_are_numbered_without_gaps_and_listed_in_order() -> None:
    records = {page.name: text_of(page) for page in pages() if page.match("docs/adr/[0-9]*.md")}
    assert [int(name[:4]) for name in sorted(records)] == list(range(1, len(records) + 1))
    index = text_of(Path("docs/adr/README.md"))
    assert re.findall(r"^\d+\. .+$", index, re.MULTILINE) == index_of_decisions(records)


def test_a_decision_without_its_rejected_alternatives_is_noticed() -> None:
    whole = "# 7. Title\n\n## Context\n\n## Decision\n\n## Rejected\n\n## Consequences\n"
    assert list(decision_faults("0007-title.md", whole)) == []
    wrong = [whole.replace("## Rejected", "## Later"), whole.replace("# 7", "# 8"), whole + "\n" * 80]
    assert [len(list(decision_faults("0007-title.md", each))) for each in wrong] == [1, 1, 1]
