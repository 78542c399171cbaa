"""Merges a file into the registry: only the changes since the file's last version are applied.

A file is applied repeatedly, and people create, rotate and revoke keys one by one. So an apply is a
three-way merge: the file, its last version, and the registry in effect. A key that was
revoked does not return with the next apply of an old file.
"""

from typing import Any, NamedTuple

from shared.registry.change_log import NAMED, Chain, written
from shared.registry.entries import Snapshot
from shared.registry.transforms import DEPLOYED_FIELDS


class MergeResult(NamedTuple):
    """The desired registry in the sections of the file, the entries of others, and conflicts."""

    desired: Snapshot
    #: A line per entry that others created, changed or deleted, and that the file does not change.
    unchanged: list[str]
    #: Places that both others and the file have changed, differently.
    clashes: list[str]


def merge_file(chain: Chain, file: Snapshot) -> MergeResult:
    """Return the merge of `file` into the registry in effect."""
    there, previous = chain.snapshot(), chain.file_versions()
    file = with_deployed(file, there)
    sections = {name: getattr(file, name) for name in file.model_fields_set}
    result = MergeResult(file, [], [])
    for section in sorted(sections.keys() & set(NAMED)):
        before = previous.get(section, {})
        sections[section] = _entries(section, sections[section], before, getattr(there, section), result)
    return result._replace(desired=Snapshot(**sections))


def with_deployed(wanted: Snapshot, there: Snapshot) -> Snapshot:
    """Return the wanted sections, with the deployed source of each transform that names none.

    People write a transform's types and limits, and a deploy writes its source.
    """
    if "transforms" not in wanted.model_fields_set:
        return wanted
    transforms = {
        name: entry.model_copy(
            update={field: getattr(there.transforms[name], field) for field in DEPLOYED_FIELDS}
        )
        if name in there.transforms and entry.source is None and there.transforms[name].source is not None
        else entry
        for name, entry in wanted.transforms.items()
    }
    return Snapshot(
        **{name: getattr(wanted, name) for name in wanted.model_fields_set} | {"transforms": transforms}
    )


def _compared(section: str, entry: Any) -> Any:
    """Return the part of an entry that people write."""
    if section != "transforms" or entry is None:
        return written(entry)
    return {name: value for name, value in written(entry).items() if name not in DEPLOYED_FIELDS}


def _entries(
    section: str, file: Any, before: dict[str, Any], there: Any, result: MergeResult
) -> dict[str, Any]:
    """Return the desired entries of a section; record in `result` the entries of others."""
    entries = dict(file)
    for name in sorted(file.keys() | there.keys()):
        mine, old, now = (_compared(section, each.get(name)) for each in (file, before, there))
        if old is None:
            if mine is None:
                entries[name] = there[name]
                result.unchanged.append(f"= {section}.{name}: unchanged, because no file has named it")
        elif mine is None or now in (old, mine):
            continue
        elif mine != old:
            result.clashes.append(f"{section}.{name}")
        elif now is None:
            del entries[name]
            result.unchanged.append(f"= {section}.{name}: deleted by others since the file was applied")
        else:
            entries[name] = there[name]
            result.unchanged.append(f"= {section}.{name}: changed by others since the file was applied")
    return entries
