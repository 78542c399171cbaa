"""The registry never dies in silence: whatever its file is, the old state holds and revocation works."""

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shared.registry.file import FileRegistry, RegistryFileError
from shared.registry.model import ApiKey, KeyHash, Snapshot
from shared.settings import RegistrySettings

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
    "empty": "",
    "only a comment": "# keys will come\n",
    "no keys any more": "event_types: {order_placed: {}}\n",
    "cut within a key": GOOD[:-20],
    "cut at its last line's end": GOOD[:-1],
    "cut at its section": "keys:\n",
    "100,000 brackets": "keys: " + "[" * 100_000 + "]" * 100_000,
    "100,000 dashes": "- " * 100_000,
    "brackets without end": "keys: " + "[" * 100_000,
    "another encoding": GOOD.encode("utf-16").decode("latin-1"),
    "a NUL": GOOD + "\0",
    "a merge of nothing": "keys:\n  <<: 1\n",
    "an alias of nobody": "keys: *nobody\n",
    "a tag that makes objects": "keys: !!python/object/apply:os.getpid []\n",
    "a key that is a list": "keys: {[a]: b}\n",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "onramp.yaml"
    file.write_text(GOOD)
    return file


def keys(registry: FileRegistry) -> list[str]:
    return list(registry.snapshot().keys)


def revoke(path: Path) -> None:
    path.write_text(f"# without shop\nkeys:\n{OTHER}")


@pytest.mark.parametrize("text", WRONG.values(), ids=list(WRONG))
def test_whatever_is_wrong_the_old_state_holds_and_revocation_still_works(
    path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    registry = FileRegistry(path)
    path.write_text(text)

    assert not registry.refresh()
    assert keys(registry) == ["shop", "other"]
    assert "the old one stays" in caplog.text
    assert HASH not in str([vars(record) for record in caplog.records])
    revoke(path)
    assert registry.refresh()
    assert keys(registry) == ["other"]


@pytest.mark.parametrize("text", [WRONG["a date that no calendar has"], WRONG["a key twice"]])
def test_a_service_does_not_start_on_it_and_says_where(path: Path, text: str) -> None:
    path.write_text(text)

    with pytest.raises(
        RegistryFileError, match=r"line 3, column \d+: (not a timestamp|the key 'shop' comes twice)"
    ):
        FileRegistry(path)


def test_a_file_that_vanishes_or_cannot_be_read_is_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry = FileRegistry(path)
    path.unlink()
    path.mkdir()
    for _ in range(3):
        assert not registry.refresh()
    path.rmdir()
    for _ in range(3):
        assert not registry.refresh()

    assert keys(registry) == ["shop", "other"]
    assert [vars(record)["reason"].rpartition(" ")[2] for record in caplog.records] == [
        "IsADirectoryError",
        "FileNotFoundError",
    ]
    revoke(path)
    assert registry.refresh()


def test_a_read_that_fails_once_is_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = FileRegistry(path)
    revoke(path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", refused)
        assert not registry.refresh()

    assert registry.refresh()
    assert keys(registry) == ["other"]


def refused(*_: object) -> str:
    raise PermissionError


def test_depth_is_refused_before_libyaml_ends_the_process(path: Path) -> None:
    path.write_text("keys: " + "[" * 150 + "]" * 150)

    with pytest.raises(RegistryFileError, match="nested deeper than 100 levels"):
        FileRegistry(path)


def test_what_nobody_foresaw_is_looked_at_again_although_the_file_stays_as_it_is(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing = False

    def check(_: Snapshot) -> None:
        if failing:
            raise MemoryError(HASH)

    registry = FileRegistry(path, check)
    failing = True
    revoke(path)
    assert not registry.refresh()
    assert not registry.refresh()
    failing = False
    assert registry.refresh()

    assert keys(registry) == ["other"]
    assert [vars(record)["reason"] for record in caplog.records if record.levelno == logging.ERROR] == [
        "MemoryError"
    ]
    assert HASH not in caplog.text


def test_an_end_mark_tells_a_file_that_was_cut_between_two_keys(path: Path) -> None:
    path.write_text(GOOD + "...\n")
    registry = FileRegistry(path)
    path.write_text(f"keys:\n{KEY}")

    assert not registry.refresh()
    path.write_text(f"keys:\n{KEY}...\n")
    assert registry.refresh()


OPERATOR = (
    f'operators:\n  ann: {{{{role: {{role}}, hashes: [{{{{sha256: "{HASH}"}}}}], events: ["{{events}}"]}}}}\n'
)


def test_operators_do_not_vanish_with_their_section(path: Path) -> None:
    path.write_text(GOOD + OPERATOR.format(role="viewer", events="order_*"))
    registry = FileRegistry(path)
    path.write_text(GOOD + "# no operators any more\n")
    assert (registry.refresh(), registry.is_valid) == (False, False)
    assert registry.snapshot().operators["ann"].events == ("order_*",)
    path.write_text(GOOD + "# none, and that is meant\noperators: {}\n")
    assert (registry.refresh(), dict(registry.snapshot().operators)) == (True, {})


@pytest.mark.parametrize(
    ("role", "events"), [("root", "*"), ("admin", "[a-z]"), ("admin", "%"), ("admin", "")]
)
def test_an_operators_role_and_patterns_have_a_form(path: Path, role: str, events: str) -> None:
    path.write_text(GOOD + OPERATOR.format(role=role, events=events))
    with pytest.raises(RegistryFileError, match=r"operators\.ann"):
        FileRegistry(path)


def test_all_keys_are_revoked_by_saying_so(path: Path) -> None:
    registry = FileRegistry(path)
    path.write_text("keys: {}\n")

    assert registry.refresh()
    assert not keys(registry)


def test_a_named_file_that_is_not_there_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "onrmap.yaml"
    assert not RegistrySettings().named
    monkeypatch.setenv("ONRAMP_REGISTRY_FILE", str(missing))
    settings = RegistrySettings()

    with pytest.raises(RegistryFileError, match=r"onrmap\.yaml is not there"):
        FileRegistry(settings.file, named=settings.named)
    assert not keys(FileRegistry(settings.file))


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
        FileRegistry(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"compatibility": "forward"},
        {"personal": ["email"]},
        {"retention": "0d"},
        {"retention": "for ever"},
        {"pause_share": 0},
        {"pause_share": 1.5},
    ],
)
def test_what_an_event_type_says_of_itself_has_a_form(wrong: dict[str, Any]) -> None:
    right = {"compatibility": "full", "personal": ["/email"], "retention": "30d", "pause_share": 0.5}
    Snapshot.model_validate({"event_types": {"a": right}})
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Snapshot.model_validate({"event_types": {"a": right | wrong}})
