"""One source of an `onramp sources` verb: its entry, its DSN, and handing over the DSN."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from services.cli.exits import Exit, complain, exits_when_unavailable, finish

if TYPE_CHECKING:
    from services.ops.registry.change import Result
    from shared.registry import Snapshot
    from shared.registry.sources import Source


class Entry:
    """A source by name and verb options; it may be absent from the registry."""

    def __init__(
        self,
        name: str,
        schemas: list[str] | None,
        dsn_env: str = "",
        *,
        data_dir: Path,
        publish: str = "",
        exclude: list[str] | None = None,
    ) -> None:
        """`schemas`: None takes the registry's entry; `data_dir`: of `onramp up`, which may have the DSN."""
        from shared.registry.sources import ENV_PREFIX

        self._name = name
        self._data_dir = data_dir
        self._is_new = schemas is not None
        self.document = {
            "dsn_env": dsn_env or ENV_PREFIX + name.upper(),
            "schemas": schemas or [],
            "publish": publish or name,
            "exclude": exclude or [],
        }

    def source(self, file: Path | None = None, kafka: str | None = None) -> "Source":
        """Return the source from the options, else from the registry. Raises `typer.Exit`."""
        if self._is_new:
            return self._validated()
        snapshot = registry(file, kafka, self._data_dir)
        if self._name not in snapshot.sources:
            known = ", ".join(sorted(snapshot.sources)) or "none"
            complain(
                f"there is no source {self._name} in the registry; known: {known} (with --schema it need not "
                "be there)"
            )
            raise typer.Exit(Exit.FAILED)
        return snapshot.sources[self._name]

    def dsn(self, source: "Source") -> str:
        """Return the DSN of this shell's environment, else that of `onramp up`; empty without one."""
        from shared.postgres.source_dsns import SourceDsns
        from stack.source_secrets import folder_of

        return SourceDsns().find(source.dsn_env) or SourceDsns(folder_of(self._data_dir)).find(source.dsn_env)

    def required_dsn(self, source: "Source") -> str:
        """Return the DSN. Raises `typer.Exit` without one."""
        dsn = self.dsn(source)
        if not dsn:
            complain(f"{source.dsn_env} is not set: give the source's DSN in it")
            raise typer.Exit(Exit.UNAVAILABLE)
        return dsn

    def require_schemas(self) -> None:
        """Raise `typer.Exit` if the source lacks a schema; print a warning if it is unreachable."""
        from services.cdc.agent.source_sql import SourceError
        from services.cdc.setup.login_sql import schemas_of

        source = self._validated()
        if not (dsn := self.dsn(source)):
            return
        try:
            there = schemas_of(source.dsn_env, dsn)
        except SourceError as error:
            complain(f"the schemas are not checked: {error}")
            return
        if missing := sorted(set(source.schemas) - set(there)):
            complain(
                f"the source {self._name} has no schema {', '.join(missing)}; it has {', '.join(there)}: "
                "nothing was added"
            )
            raise typer.Exit(Exit.FAILED)

    def is_same(self, there: Any) -> bool:
        """Return whether an entry of the registry is equal."""
        from shared.registry.sources import Source

        return Source.model_validate(there) == self._validated()

    def hand_over(self, kafka: str | None) -> None:
        """Store the DSN of this shell's environment for the `onramp up` of the data folder, if that runs."""
        from shared.postgres.source_dsns import SourceDsns
        from stack.source_secrets import keep

        variable = self._validated().dsn_env
        if self._is_beside_up(kafka) and (dsn := SourceDsns().find(variable)):
            keep(self._data_dir, variable, dsn)

    def next_step(self, kafka: str | None) -> str:
        """Return the operator's next step."""
        from shared.registry.sources import PASSWORD_SUFFIX

        source = self._validated()
        if self._is_beside_up(kafka) and not self.dsn(source):
            return f"`onramp up` has no DSN of it: export {source.dsn_env} and run the same again"
        list_ = f"its tables appear in the schema {source.publish}: `onramp sources list`"
        if self._is_beside_up(kafka):
            return list_
        password = source.dsn_env + PASSWORD_SUFFIX
        return f"the agent needs {source.dsn_env}, and Kafka Connect {password}; {list_}"

    def _is_beside_up(self, kafka: str | None) -> bool:
        from stack import addresses

        noted = addresses.noted(self._data_dir)
        return noted is not None and kafka in (None, noted.kafka)

    def _validated(self) -> "Source":
        from pydantic import TypeAdapter, ValidationError

        from shared.registry.memory import reasons
        from shared.registry.sources import Source, SourceName

        try:
            TypeAdapter(SourceName).validate_python(self._name)
            return Source.model_validate(self.document)
        except ValidationError as error:
            complain("; ".join(reasons(error)))
            raise typer.Exit(Exit.FAILED) from None


def registry(file: Path | None, kafka: str | None, data_dir: Path) -> "Snapshot":
    """Return the registry of a file, else of Kafka. Raises `typer.Exit`."""
    from services.cli.connection_options import kafka_settings
    from services.ops.registry.change import editing
    from shared.errors import UserError
    from shared.registry.file import RegistryFileError, load

    with exits_when_unavailable():
        try:
            if file is not None:
                return load(file)
            with editing(kafka_settings(kafka, data_dir)) as editor:
                return editor.chain.snapshot()
        except (RegistryFileError, UserError) as error:
            complain(str(error))
            raise typer.Exit(Exit.FAILED) from None


def changed(change: Any, reason: str, kafka: str | None, data_dir: Path) -> "Result":
    """Bring the sources that `change` returns into force. Raises `typer.Exit`."""
    from pydantic import ValidationError

    from services.cli.connection_options import kafka_settings
    from services.ops.registry.change import Wish, change_to, editing
    from shared.errors import UserError
    from shared.registry import Snapshot
    from shared.registry.memory import reasons

    with exits_when_unavailable():
        try:
            with editing(kafka_settings(kafka, data_dir)) as editor:
                there = editor.chain.document().get("sources", {})
                wanted = Snapshot.model_validate({"sources": change(there)})
                return change_to(editor, wanted, Wish(reason=reason))
        except (ValueError, UserError) as error:
            why = reasons(error) if isinstance(error, ValidationError) else [str(error)]
            complain("; ".join(why))
            raise typer.Exit(Exit.FAILED) from None


def finish_change(result: "Result", *, as_json: bool, done: str) -> None:
    """Print a change's result, and end the verb."""
    finish(
        result.as_dict(),
        worked=result.state in ("applied", "unchanged"),
        as_json=as_json,
        done=done,
        problem=f"{result.state}: {result.reason}",
    )


@contextmanager
def says_why() -> Iterator[None]:
    """End the verb with 3 and the reason when a source or a database cannot be reached inside."""
    from services.cdc.agent.source_sql import SourceError
    from services.cdc.agent.source_state_sql import KeptError
    from shared.errors import InfrastructureError

    try:
        yield
    except (KeptError, SourceError, InfrastructureError) as error:
        complain(str(error))
        raise typer.Exit(Exit.UNAVAILABLE) from None
