"""Logs changes of topics: Kafka stores no reason, so a given one goes into the audit log, as over HTTP."""

import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from services.cli.connection_options import Where

ReasonOption = Annotated[
    str,
    typer.Option(
        "--reason",
        help="Reason, stored with your name in the audit log of the control database (`onramp errors acts`); "
        "if the log is unreachable, nothing is changed.",
        show_default=False,
    ),
]
ControlOption = Annotated[
    str | None,
    typer.Option(
        "--control",
        help="The control database of `onramp admin`, for --reason; without it the default one.",
        envvar="ONRAMP_ADMIN_DSN",
        show_default=False,
    ),
]


@contextmanager
def written_down(
    where: Where, control: str | None, act: str, subject: str, reason: str
) -> Iterator[Callable[[], None]]:
    """Log that `act` is done to `subject`, if there is a `reason`, unless the block fails.

    The yielded function withdraws the entry if nothing was done.  Raises `InfrastructureError`.
    """
    if not reason:
        yield lambda: None
        return
    from services.admin.store.control_sql import transaction
    from services.admin.store.read_sql import record_act
    from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError

    dsn = control or next(iter(where.databases.values()), "")
    if not dsn:
        raise typer.BadParameter("no control database is known: give --control", param_hint="--reason")
    try:
        with transaction(dsn) as conn:
            record_act(conn, getpass.getuser(), act, subject, reason)
            yield conn.rollback
    except InfrastructureError as e:
        if e.fault is not DATABASE_UNAVAILABLE:
            raise
        text = (
            "the reason cannot be stored: name the database of `onramp admin` in --control, or give no reason"
        )
        raise InfrastructureError(e.fault, f"{e.detail}; {text}") from None
