"""The rules of the registry's log: which records count, and the registry that they result in.

Any client may write to the log, also concurrently, and records are permanent. So every reader decides the
same, from
the records alone and in order: a record counts if it follows the last one that counted and is valid
by the rules of its format. That needs no lock, leader or transaction: if two writers followed the
same record, the first counts, and the other detects this when it reads back.
"""

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from shared.errors import UserError
from shared.registry.entries import Snapshot
from shared.registry.memory import reasons
from shared.registry.sources import require_no_clash
from shared.registry.transforms import require_fit
from shared.strict_json import loads

#: The rules of a format never change, or readers of two releases would decide differently: a new field,
#: section or rule of the model is a new format (a test holds the model to this number).
FORMAT: Final = 1
#: The predecessor of the first record.
NOTHING: Final = -1
#: Sections whose entries have names; the others are replaced as a whole.
NAMED: Final = tuple(name for name, field in Snapshot.model_fields.items() if field.default_factory is dict)
#: Entries of a section that are evaluated at a time, and maximum reasons reported per record.
_AT_ONCE: Final = 500
_REASONS: Final = 20
_MAX_REASON: Final = 2000
_SECTIONS: Final = {name: TypeAdapter[Any](Snapshot.model_fields[name].annotation or Any) for name in NAMED}


def _of_names(delete: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    if unknown := delete.keys() - set(NAMED):
        raise ValueError(f"entries of {', '.join(NAMED)} can be deleted, not of {min(unknown):.70}")
    return delete


class ChangeSet(BaseModel):
    """A record, which takes effect as a whole or not at all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1]
    after: Annotated[int, Field(ge=NOTHING, strict=True)]
    actor: Annotated[str, Field(min_length=1, max_length=200)]
    reason: Annotated[str, Field(max_length=2000)] = ""
    time: AwareDatetime
    #: Written by the apply of a file: the file owns these entries, and may change and delete them.
    of_file: Annotated[bool, Field(strict=True)] = False
    put: Snapshot = Field(default_factory=Snapshot)
    delete: Annotated[Mapping[str, tuple[str, ...]], AfterValidator(_of_names)] = Field(default_factory=dict)


class _WrongSectionError(Exception):
    """Entries of a section are invalid; their places are relative to the section."""

    def __init__(self, section: str, error: ValidationError) -> None:
        super().__init__(section)
        self.section = section
        self.error = error


class Ruling(StrEnum):
    """The status of a record for its readers."""

    COUNTED = "counted"
    #: It does not follow the last record that counted, or is invalid after it.
    VOID = "void"
    #: It is not a change set of any format.
    CORRUPT = "corrupt"
    #: A later release wrote it or a record before it: this release cannot decide whether it counts.
    NEWER = "newer"


class Verdict(NamedTuple):
    """A ruling, its reason without values, and the change set if it is readable."""

    ruling: Ruling
    reason: str = ""
    change: ChangeSet | None = None


class Chain:
    """The registry after the records up to `end`; `last` is the last record that counted."""

    def __init__(self) -> None:
        self.last = NOTHING
        #: Digest of the last record that counted: a recreated log has another record there.
        self.last_digest = b""
        #: Offsets of the records that counted, in order.
        self.counted: list[int] = []
        self.end = 0
        #: Whether a later release has written: the registry in effect after that is unknown here.
        self.is_outgrown = False
        #: Entries that a change set deleted, by section and name, which a lost log does not show.
        self.removed: set[tuple[str, str]] = set()
        self._sections: dict[str, Any] = {}
        #: The last version of named entries that came from a file, independent of later changes.
        self._of_files: dict[str, dict[str, Any]] = {}

    def take(self, offset: int, value: bytes | None) -> Verdict:
        """Evaluate the record at `offset`, and apply it if it counts. Called in the order of records."""
        self.end = offset + 1
        verdict = self.evaluate(value or b"")
        if verdict.ruling is Ruling.COUNTED and verdict.change is not None:
            self._change(verdict.change)
            self.last, self.last_digest = offset, digest_of(value)
            self.counted.append(offset)
        self.is_outgrown |= verdict.ruling is Ruling.NEWER
        return verdict

    def snapshot(self) -> Snapshot:
        """Return the registry in effect; takes a tenth of a second for thousands of types."""
        return Snapshot(**self._sections)

    def document(self) -> dict[str, Any]:
        """Return the registry in effect in the format of the file."""
        return {section: written(value) for section, value in self._sections.items()}

    def file_versions(self) -> dict[str, dict[str, Any]]:
        """Return each entry's last version from a file, in the file's format, by section and name.

        Other changes may have replaced or deleted it since.
        """
        return {section: written(entries) for section, entries in self._of_files.items()}

    def evaluate(self, value: bytes) -> Verdict:
        """Return the verdict on a record as the next one."""
        document = _document_of(value)
        if not isinstance(document, dict) or type(number := document.get("format")) is not int:
            return Verdict(Ruling.CORRUPT, "it is not strict JSON of a change set")
        if self.is_outgrown:
            return Verdict(Ruling.NEWER, "it follows a record of a later release")
        if number > FORMAT and document.get("after") == self.last:  # any other text is void in each format
            return Verdict(Ruling.NEWER, f"its format is {number}, this release supports {FORMAT}")
        try:
            change = ChangeSet.model_validate(_with_read_sections(document))
        except Exception as e:  # noqa: BLE001 - a permanent record must not stop a reader
            return Verdict(Ruling.CORRUPT, _reason(e))
        void = self._why_void(change)
        return Verdict(Ruling.VOID if void else Ruling.COUNTED, void, change)

    def _why_void(self, change: ChangeSet) -> str:
        """Return why a change set is invalid here; empty if it is valid."""
        if change.after != self.last:
            return f"it follows record {change.after}, but the last valid record is {self.last}"
        if absent := self._absent(change):
            return f"it deletes a missing entry: {absent}"
        return self._clash(change)

    def _clash(self, change: ChangeSet) -> str:
        """Return why entries would conflict; a rule of all readers, not of one service."""
        try:
            if _touches(change, "sources", "models"):
                require_no_clash(self._after(change, "sources"), self._after(change, "models"))
            if _touches(change, "transforms", "lookups", "event_types") and (
                transforms := self._after(change, "transforms")
            ):
                require_fit(transforms, self._after(change, "lookups"), self._after(change, "event_types"))
        except ValueError as e:
            return str(e)[:_MAX_REASON]
        return ""

    def _after(self, change: ChangeSet, section: str) -> dict[str, Any]:
        """Return the entries of a section after the change set."""
        put = getattr(change.put, section)
        removed = set(change.delete.get(section, ())) - put.keys()
        entries = {**self._sections.get(section, {}), **put}
        return {name: entry for name, entry in entries.items() if name not in removed}

    def _absent(self, change: ChangeSet) -> str:
        """Return the first place that the change set deletes although it is missing."""
        for section, names in change.delete.items():
            there = self._sections.get(section, {})
            for name in names:
                if name not in there:
                    return f"{section}.{name:.70}"
        return ""

    def _change(self, change: ChangeSet) -> None:
        """Apply a valid change set: deletions first."""
        for section, names in change.delete.items():
            for name in names:
                self._sections[section].pop(name, None)
                self.removed.add((section, name))
                if change.of_file:
                    self._of_files.get(section, {}).pop(name, None)
        for section in change.put.model_fields_set:
            value = getattr(change.put, section)
            if section in NAMED:
                self._sections.setdefault(section, {}).update(value)
                self.removed.difference_update((section, name) for name in value)
                if change.of_file:
                    self._of_files.setdefault(section, {}).update(value)
            else:
                self._sections[section] = value


def _touches(change: ChangeSet, *sections: str) -> bool:
    return any(change.delete.get(name) or name in change.put.model_fields_set for name in sections)


def _document_of(value: bytes) -> object:
    try:
        return loads(value)
    except UserError:
        return None


def _with_read_sections(document: dict[str, Any]) -> dict[str, Any]:
    """Return the change set with the entries of its large sections parsed, some at a time.

    A record of 12 MB with 500,000 invalid names would otherwise cost every reader 3 s, a reason of 46 MB
    and a gigabyte: now it is refused by the first invalid ones. Raises `_WrongSectionError`.
    """
    put = document.get("put")
    if not isinstance(put, dict):
        return document
    large = {
        name: put[name] for name in NAMED if isinstance(put.get(name), dict) and len(put[name]) > _AT_ONCE
    }
    read = {name: _read_section(name, list(entries.items())) for name, entries in large.items()}
    return {**document, "put": {**put, **read}} if read else document


def _read_section(section: str, entries: list[tuple[str, Any]]) -> dict[str, Any]:
    adapter = _SECTIONS[section]
    read: dict[str, Any] = {}
    for at in range(0, len(entries), _AT_ONCE):
        try:
            read |= adapter.validate_python(dict(entries[at : at + _AT_ONCE]))
        except ValidationError as e:
            raise _WrongSectionError(section, e) from e
    return read


def _reason(error: Exception) -> str:
    if isinstance(error, _WrongSectionError):
        texts = [f"put.{error.section}.{reason}" for reason in reasons(error.error)]
    elif isinstance(error, ValidationError):
        texts = reasons(error)
    else:
        return type(error).__name__
    more = [f"and {len(texts) - _REASONS} more"] if len(texts) > _REASONS else []
    return "; ".join((*texts[:_REASONS], *more))


def digest_of(value: bytes | None) -> bytes:
    """Return the digest that identifies a record."""
    return sha256(value or b"").digest()


def written(value: Any) -> Any:
    """Return a part of the registry as plain JSON, without default values."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {name: written(each) for name, each in value.items()}
    return [written(each) for each in value] if isinstance(value, tuple) else value
