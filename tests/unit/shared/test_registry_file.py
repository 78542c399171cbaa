"""An invalid registry file changes nothing, is reported with its errors, and blocks no revocation."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from services.ops.registry.change import Result, State, Wish, apply_file
from shared.registry.editor import Editor
from shared.registry.entries import ApiKey, KeyHash, Snapshot
from shared.registry.file import RegistryFileError, load
from shared.registry.log import MemoryLog

HASH = "ab" * 32
KEY = f'  shop: {{hashes: [{{sha256: "{HASH}"}}]}}\n'
OTHER = f'  other: {{hashes: [{{sha256: "{HASH}"}}]}}\n'
GOOD = f"keys:\n{KEY}{OTHER}"


def expiring(when: str) -> str:
    return f"keys:\n  shop:\n    hashes: [{{sha256: '{HASH}', expires: {when}}}]\n"


WRONG = {
    "a date that no calendar has": expiring("2027-02-30"),
    "a time that no clock has": expiring("2027-02-03T25:00:00Z"),
    "a key twice": f"keys:\n{KEY}{KEY}",
    "a section twice": f"keys:\n{KEY}keys:\n{OTHER}",
    "a field twice": f'keys:\n  shop: {{hashes: [{{sha256: "{HASH}"}}], expires: null, expires: null}}\n',
    "cut within a key": GOOD[:-20],
    "cut at its section": "keys:\n",
    "100,000 brackets": "keys: " + "[" * 100_000 + "]" * 100_000,
    "100,000 dashes": "- " * 100_000,
    "a tab before a key": "keys:\n\tshop: {}\n",
    "brackets without end": "keys: " + "[" * 100_000,
    "another encoding": GOOD.encode("utf-16").decode("latin-1"),
    "a NUL": GOOD + "\0",
    "a merge of nothing": "keys:\n  <<: 1\n",
    "an alias of nobody": "keys: *nobody\n",
    "a tag that makes objects": "keys: !!python/object/apply:os.getpid []\n",
    "a key that is a list": "keys: {[a]: b}\n",
}


#: They name no keys, which takes none away: `keys: {}` does.
SILENT = {
    "empty": "",
    "only a comment": "# keys will come\n",
    "no keys any more": "event_types: {order_placed: {}}\n",
}


class InForce:
    """A registry that is changed by a file alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = MemoryLog()

    def apply(self, text: str) -> Result:
        self.path.write_text(text)
        return apply_file(Editor(self._log), self.path, Wish())

    @property
    def snapshot(self) -> Snapshot:
        return Editor(self._log).chain.snapshot()

    @property
    def keys(self) -> list[str]:
        return list(self.snapshot.keys)

    def revokes(self) -> bool:
        return self.apply(f"# without shop\nkeys:\n{OTHER}").state is State.APPLIED and self.keys == ["other"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "onramp.yaml"


@pytest.fixture
def in_force(path: Path) -> InForce:
    made = InForce(path)
    assert made.apply(GOOD).state is State.APPLIED
    return made


@pytest.mark.parametrize("text", WRONG.values(), ids=list(WRONG))
def test_whatever_is_wrong_the_state_before_holds_and_revocation_still_works(
    in_force: InForce, text: str
) -> None:
    result = in_force.apply(text)
    assert result.state is State.REFUSED
    assert "onramp.yaml" in result.reason
    assert HASH not in str(result)
    assert in_force.keys == ["shop", "other"]
    assert in_force.revokes()


@pytest.mark.parametrize("text", SILENT.values(), ids=list(SILENT))
def test_file_without_keys_revokes_no_key(in_force: InForce, text: str) -> None:
    in_force.apply(text)
    assert in_force.keys == ["shop", "other"]
    assert in_force.revokes()


@pytest.mark.parametrize("text", [WRONG["a date that no calendar has"], WRONG["a key twice"]])
def test_load_error_names_the_line_and_column(path: Path, text: str) -> None:
    path.write_text(text)

    with pytest.raises(
        RegistryFileError, match=r"line 3, column \d+: (not a timestamp|the key 'shop' comes twice)"
    ):
        load(path)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("unknown_names", "it belongs to another part of the file: see docs/registry.md"),
        ("ownr", "did you mean `owner`?"),
        ("xyzzy", "docs/registry.md lists the fields"),
    ],
)
def test_unknown_field_is_refused_with_a_suggestion(path: Path, name: str, advice: str) -> None:
    path.write_text(f"event_types:\n  trip:\n    {name}: refuse\n", "utf-8")
    with pytest.raises(RegistryFileError, match="unknown field") as told:
        load(path)
    assert str(told.value).endswith(advice)


def test_a_file_that_cannot_be_read_says_why(path: Path) -> None:
    with pytest.raises(RegistryFileError, match="does not exist: name the registry's file"):
        load(path)
    path.mkdir()
    with pytest.raises(RegistryFileError, match="cannot be read: Is a directory"):
        load(path)


def test_depth_is_refused_before_libyaml_ends_the_process(path: Path) -> None:
    path.write_text("keys: " + "[" * 150 + "]" * 150)

    with pytest.raises(RegistryFileError, match="nested deeper than 100 levels"):
        load(path)


OPERATOR = (
    f'operators:\n  ann: {{{{role: {{role}}, hashes: [{{{{sha256: "{HASH}"}}}}], events: ["{{events}}"]}}}}\n'
)


def test_operators_do_not_vanish_with_their_section(in_force: InForce) -> None:
    in_force.apply(GOOD + OPERATOR.format(role="viewer", events="order_*"))
    in_force.apply(GOOD + "# no operators any more\n")
    assert in_force.snapshot.operators["ann"].events == ("order_*",)
    in_force.apply(GOOD + "# none, and that is meant\noperators: {}\n")
    assert dict(in_force.snapshot.operators) == {}


@pytest.mark.parametrize(
    ("role", "events"), [("root", "*"), ("admin", "[a-z]"), ("admin", "%"), ("admin", "")]
)
def test_an_operators_role_and_patterns_have_a_form(path: Path, role: str, events: str) -> None:
    path.write_text(GOOD + OPERATOR.format(role=role, events=events))
    with pytest.raises(RegistryFileError, match=r"operators\.ann"):
        load(path)


def test_all_keys_are_revoked_by_saying_so(in_force: InForce) -> None:
    assert in_force.apply("keys: {}\n").state is State.APPLIED
    assert not in_force.keys


@pytest.mark.parametrize(
    ("key", "secrets", "last"),
    [
        (None, [None], None),
        (None, [2027], 2027),
        (None, [2027, None], None),  # rotated: the other one stays
        (None, [2027, 2028], 2028),
        (2026, [None], 2026),
        (2030, [2027, 2028], 2028),
    ],
)
def test_a_keys_last_moment_is_that_of_its_last_secret_or_its_own(
    key: int | None, secrets: list[int | None], last: int | None
) -> None:
    def moment(year: int | None) -> datetime | None:
        return None if year is None else datetime(year, 1, 1, tzinfo=UTC)

    hashes = tuple(KeyHash(sha256=HASH, expires=moment(year)) for year in secrets)
    assert ApiKey(hashes=hashes, expires=moment(key)).last_moment() == moment(last)


BOMB = "\n".join(
    ["x0: &x0 [1,1,1,1,1,1,1,1,1]", *(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]" for n in range(1, 7))]
)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (BOMB, "more than 200,000 values"),
        ("a: &a [*a]", "nested deeper than 100"),
        ("maximum: 36893488147419103232", "more than 64 bits"),
        ("maximum: .inf", "infinite"),
        ("const: 2026-01-02", "put it in quotes"),
        ("properties: {1: {}}", "put it in quotes"),
    ],
)
def test_a_schema_that_is_no_plain_json_is_refused_before_anything_walks_through_it(
    tmp_path: Path, schema: str, says: str
) -> None:
    path = tmp_path / "onramp.yaml"
    lines = "\n".join(f"      {line}" for line in schema.splitlines())
    path.write_text(f"event_types:\n  order_placed:\n    schema:\n{lines}\n")
    with pytest.raises(RegistryFileError, match=rf"order_placed\.schema: .*{says}"):
        load(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"compatibility": "forward"},
        {"personal": ["email"]},
        {"retention": "0d"},
        {"retention": "for ever"},
        {"pause_share": 0.5},  # the writer has one setting for all types
    ],
)
def test_event_type_with_an_invalid_setting_is_refused_by_the_setting_name(wrong: dict[str, Any]) -> None:
    right = {"compatibility": "full", "personal": ["/email"], "retention": "30d"}
    Snapshot.model_validate({"event_types": {"a": right}})
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Snapshot.model_validate({"event_types": {"a": right | wrong}})
