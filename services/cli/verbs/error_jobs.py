"""`onramp errors discard`, `restore`, `rehearse`, `replay`, `jobs`, `acts`: jobs and their log."""

import getpass
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer

from services.cli.admin_api import AdminApi
from services.cli.error_edits import edits_of
from services.cli.error_options import (
    ActOption,
    ActorOption,
    AdminOption,
    ByOption,
    CodeOption,
    CountOption,
    DestinationOption,
    EditedOption,
    EventOption,
    FixOption,
    GroupOption,
    IdOption,
    ReasonOption,
    SubjectOption,
    ToOption,
    fix_of,
)
from services.cli.exits import Exit
from services.cli.options import JsonOption
from services.cli.show.parked_groups import (
    print_acts,
    print_counted,
    print_job,
    print_jobs,
    print_rehearsal,
)

RateOption = Annotated[int | None, typer.Option(min=1, help="Maximum events per second.", show_default=False)]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only count the events.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
CancelOption = Annotated[bool, typer.Option("--cancel", help="End the job before its next batch.")]
WhyOption = Annotated[str, typer.Option("--reason", help="Reason; it is logged.")]
TriggersOption = Annotated[
    bool,
    typer.Option(
        "--with-triggers", help="Also in tables with triggers, whose effects may outlast the rehearsal."
    ),
]
RehearsedOption = Annotated[
    int | None,
    typer.Option(help="The set of this rehearsal, unless it has changed since.", show_default=False),
]
JobArgument = Annotated[int | None, typer.Argument(help="One job's number.", show_default=False)]


_POLL_SECONDS: Final = 0.5
#: Outcomes of events that a replay would not leave parked.
_REPLAYED: Final = frozenset({"landed", "duplicate", "emitted", "dropped"})
_RUNNING: Final = frozenset({"running", "cancelling"})
_DISCARD: Final = """\
Discard parked events: they remain stored, and need no action. It can be undone for seven days.

The events are counted first, and exactly these are discarded, without events that are parked meanwhile.
Examples:

onramp errors discard --group 3 --reason "a test of the sender" --dry-run

onramp errors discard --group 3 --reason "a test of the sender" --yes
"""
_RESTORE: Final = """\
Undo a discard of the last seven days: the events are open again.

Example: onramp errors restore --group 3 --reason "they were real"
"""


def _verb(kind: str, about: str) -> Callable[..., None]:
    """Return the verb that starts a job of this kind for a set of parked events."""

    def verb(
        *,
        reason: ReasonOption,
        group: GroupOption = None,
        code: CodeOption = None,
        event: EventOption = None,
        event_id: IdOption = None,
        destination: DestinationOption = None,
        actor: ActorOption = "",
        rate: RateOption = None,
        dry_run: DryRunOption = False,
        yes: YesOption = False,
        admin: AdminOption = None,
        as_json: JsonOption = False,
    ) -> None:
        filters = {"group": group, "code": code, "event_name": event, "event_id": event_id}
        asked = {"kind": kind, "filters": filters | {"destination": destination}, "rate": rate}
        asked |= {"actor": actor or getpass.getuser(), "reason": reason}
        _start(AdminApi.at(admin), asked, dry_run=dry_run, yes=yes, as_json=as_json)

    verb.__name__, verb.__doc__ = kind, about
    return verb


discard = _verb("discard", _DISCARD)
restore = _verb("restore", _RESTORE)


def rehearse(
    *,
    reason: WhyOption = "a rehearsal",
    group: GroupOption = None,
    code: CodeOption = None,
    event: EventOption = None,
    event_id: IdOption = None,
    destination: DestinationOption = None,
    fix: FixOption = None,
    edited: EditedOption = None,
    to: ToOption = None,
    with_triggers: TriggersOption = False,
    actor: ActorOption = "",
    rate: RateOption = None,
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print which parked events would land now, by the code that lands them; the events do not change.

    Prints how many would land, are there already or would fail, by cause, and ten of them as shapes. Waits
    for the answers of the writer, or of the transforms that parked the events; after Ctrl-C it continues, and
    `onramp errors jobs` shows them. Tables with triggers are skipped without --with-triggers. Exits with 1
    when an event would fail. Examples:

    onramp errors rehearse --group 3

    onramp errors rehearse --group 3 --fix '{"rename": "/cost", "to": "/price"}'
    """
    api, actor = AdminApi.at(admin), actor or getpass.getuser()
    filters = {"group": group, "code": code, "event_name": event, "event_id": event_id}
    filters |= {"edits": edits_of(api, edited, actor)}
    asked: dict[str, Any] = {
        "kind": "rehearse",
        "filters": filters | {"destination": destination},
        "rate": rate,
    }
    asked |= {
        "actor": actor,
        "reason": reason,
        "with_triggers": with_triggers,
        "fix": fix_of(fix),
        "to": to,
    }
    job = _ended(api, api.post("/v1/jobs", asked))
    print_rehearsal(job, as_json=as_json)
    fails = any(result["outcome"] not in _REPLAYED for result in job["results"])
    raise typer.Exit(Exit.FAILED if fails or job["state"] != "done" else Exit.OK)


def replay(
    *,
    reason: ReasonOption,
    group: GroupOption = None,
    code: CodeOption = None,
    event: EventOption = None,
    event_id: IdOption = None,
    destination: DestinationOption = None,
    rehearsed: RehearsedOption = None,
    fix: FixOption = None,
    edited: EditedOption = None,
    to: ToOption = None,
    actor: ActorOption = "",
    rate: RateOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replay parked events, once their cause is fixed: a table, a right, a route.

    The writer lands them by the current routes, each once, with its original Kafka offset. A transform runs
    its deployed function on the events that it parked. Events that fail again are open again, with the new
    reason. Examples:

    onramp errors replay --group 3 --reason "the column is wide enough now"

    onramp errors replay --rehearsed 7 --reason "all of them would land"

    onramp errors replay --group 3 --fix fix.json --reason "the price had a comma"

    onramp errors replay --group 3 --to public.flights_2025 --reason "its route was removed"

    onramp errors replay --destination transform:flight_delays --reason "the function is corrected"
    """
    filters = {"group": group, "code": code, "event_name": event, "event_id": event_id}
    api, actor = AdminApi.at(admin), actor or getpass.getuser()
    given = {"destination": destination, "edits": edits_of(api, edited, actor)} | filters
    asked: dict[str, Any] = {
        "kind": "replay",
        "rate": rate,
        "rehearsed": rehearsed,
        "fix": fix_of(fix),
        "to": to,
    }
    if rehearsed is None or any(given.values()):
        asked |= {"filters": given}
    asked |= {"actor": actor, "reason": reason}
    _start(api, asked, dry_run=dry_run, yes=yes, as_json=as_json)


def jobs(
    number: JobArgument = None,
    *,
    cancel: CancelOption = False,
    actor: ActorOption = "",
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the last jobs and their progress, or one job in full; or cancel it.

    For a replay, the number of events that failed again is printed; for a single job, also their causes. The
    changes of a cancelled job remain. Examples:

    onramp errors jobs

    onramp errors jobs 4 --cancel
    """
    api = AdminApi.at(admin)
    if number is None:
        print_jobs(api.get("/v1/jobs")["jobs"], as_json=as_json)
    elif cancel:
        by = {"actor": actor or getpass.getuser()}
        print_jobs([api.post(f"/v1/jobs/{number}/cancel", by)], as_json=as_json)
    else:
        print_job(api.get(f"/v1/jobs/{number}"), as_json=as_json)


def acts(
    *,
    actor: ByOption = None,
    act: ActOption = None,
    subject: SubjectOption = None,
    lines: CountOption = 50,
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the audit log: actions on parked events, values read and refusals; the newest first.

    Queries `onramp admin`, as an operator with the role admin. Examples:

    onramp errors acts --actor ann

    onramp errors acts --act reveal --json
    """
    filters = {"actor": actor, "act": act, "subject": subject}
    print_acts(AdminApi.at(admin).pages("audit-log", lines, "acts", **filters), as_json=as_json)


def _start(api: AdminApi, asked: Mapping[str, Any], *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Count the set, ask for confirmation, and start the job for the counted events."""
    counted = api.post("/v1/jobs", {**asked, "dry_run": True})
    if dry_run or not (yes or typer.confirm(f"{asked['kind']} {counted['events']:,} events?", err=True)):
        print_counted(counted, as_json=as_json)
        raise typer.Exit(Exit.OK if dry_run else Exit.FAILED)
    job = api.post("/v1/jobs", {**asked, "upto": counted["upto"], "expect": counted["events"]})
    print_jobs([job], as_json=as_json)


def _ended(api: AdminApi, job: dict[str, Any]) -> dict[str, Any]:
    """Return a job once it has ended."""
    while job["state"] in _RUNNING:
        time.sleep(_POLL_SECONDS)
        job = api.get(f"/v1/jobs/{job['id']}")
    return job
