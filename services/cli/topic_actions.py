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
        help="Why: it is kept with your name among the acts of the control database (`onramp errors acts`); "
        "while it cannot be, nothing is changed.",
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
    """Write down that `act` is done to `subject`, if there is a `reason`, unless the block fails.

    What it yields takes the act back: nothing was done.  Raises `InfrastructureError`: it cannot be written.
    """
    if not reason:
        yield lambda: None
        return
    from services.admin.store.control_sql import transaction
    from services.admin.store.read_sql import record_act
    from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError

    dsn = control or next(iter(where.databases.values()), "")
    if not dsn:
        raise typer.BadParameter("no database is known that keeps it: give --control", param_hint="--reason")
    try:
        with transaction(dsn) as conn:
            record_act(conn, getpass.getuser(), act, subject, reason)
            yield conn.rollback
    except InfrastructureError as e:
        if e.fault is not DATABASE_UNAVAILABLE:
            raise
        text = "the reason cannot be kept there: name that of `onramp admin` in --control, or give no reason"
        raise InfrastructureError(e.fault, f"{e.detail}; {text}") from None
