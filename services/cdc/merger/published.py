"""The registry's settings of publishing: the schema of each source, and the cleaning of its tables."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from services.cdc.merge.history_sql import TableName
from services.cdc.merge.public_table import Cleaning
from services.cdc.merge.suspended import SuspendedError
from shared.registry.entries import Snapshot
from shared.registry.sources import Model, Source

#: Quoted SQL may have any text; outside of quotes these characters end the condition or hide its end.
_QUOTED: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_ENDS: Final = re.compile(r";|--|/\*|\$|\\|'|\"")
_UNITS: Final = {"h": 3600, "d": 86_400}


@dataclass(frozen=True, kw_only=True)
class Published:
    """The sources that are published to one database."""

    sources: Mapping[str, Source]
    models: Mapping[str, Model]

    def takes(self, name: TableName) -> bool:
        """Return whether the table is published."""
        source = self.sources.get(name.source)
        return source is not None and source.takes(name.schema, name.table)

    def require_own_name(self, name: TableName, all_names: Iterable[TableName]) -> None:
        """Raise `SuspendedError` where a table of another schema already has the public name."""
        others = [n for n in all_names if (n.source, n.table) == (name.source, name.table) and self.takes(n)]
        if name != min(others):
            raise SuspendedError(
                f"{min(others)} is published under the same name: exclude one of the two, or name their "
                "schemas in two sources"
            )

    def schema_of(self, name: TableName) -> str:
        """Return the schema that the table is published in."""
        return self.sources[name.source].publish

    def cleaning_of(self, name: TableName) -> Cleaning:
        """Return the table's cleaning.  Raises `SuspendedError` for a `where` that is not one condition."""
        model = self.models.get(str(name))
        if model is None:
            return Cleaning()
        if model.where and not is_one_condition(model.where):
            raise SuspendedError(
                f"models.{name}.where is not one condition: it has a semicolon, a comment or an open "
                "parenthesis or quote"
            )
        return Cleaning(where=model.where or "", excluded_columns=frozenset(model.columns))

    def keeps_landing(self) -> Mapping[str, int]:
        """Return the retention of each source's landing, in seconds."""
        kept = {name: source.keep_landing for name, source in self.sources.items()}
        return {name: int(text[:-1]) * _UNITS[text[-1]] for name, text in kept.items()}


def published(snapshot: Snapshot, database: str, default: str) -> Published:
    """Return the sources that are published to `database`."""
    here = {name: s for name, s in snapshot.sources.items() if (s.database or default) == database}
    return Published(sources=here, models=snapshot.models)


def is_one_condition(where: str) -> bool:
    """Return whether the text is one condition that cannot end the statement around it."""
    bare = _QUOTED.sub("''", where).replace("''", "")
    depth = 0
    for sign in bare:
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return False
    return depth == 0 and not _ENDS.search(bare)
