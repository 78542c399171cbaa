"""Output of `onramp up`: the main job's result, and the addresses of its parts."""

import dataclasses
import json
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stack.demo import Outcome
    from stack.up import Stack

_ENVELOPE = {
    "metadata": {"id": "order-1", "timestamp": "2026-01-01T12:00:00Z", "version": "1"},
    "event_name": "order_placed",
    "payload": {"total": 42},
}


def as_dict(outcome: "Outcome") -> dict[str, object]:
    """Return the result for JSON."""
    keys = ("carrier", "name", "average_delay_minutes", "flights")
    return {
        **dataclasses.asdict(outcome),
        "worst": [dict(zip(keys, row, strict=True)) for row in outcome.worst],
        "landed": outcome.landed,
        "adds_up": outcome.adds_up,
        "events_per_second": round(outcome.sent / outcome.seconds),
    }


def lines_of(outcome: "Outcome") -> list[str]:
    """Return the result in lines for people, with repeated ids counted separately."""
    return ["", *_counts(outcome), *_verdict(outcome), *_worst(outcome), ""]


def _counts(outcome: "Outcome") -> list[str]:
    landed = f"  landed    {outcome.landed:>9,}"
    if outcome.landed_before:
        landed += f"   ({outcome.landed_now:,} now, {outcome.landed_before:,} were there already)"
    return [f"  sent      {outcome.sent:>9,}", f"  accepted  {outcome.accepted:>9,}", landed]


def _verdict(outcome: "Outcome") -> list[str]:
    if outcome.adds_up:
        rate = outcome.sent / outcome.seconds
        return [f"The counts add up: {rate:,.0f} events/s from the first request to the last row."]
    reason = [f"The first rejection: {outcome.first_rejection}"] if outcome.first_rejection else []
    return ["THE COUNTS DO NOT ADD UP.", *reason]


def _worst(outcome: "Outcome") -> list[str]:
    if not outcome.worst:
        return []
    rows = [
        f"  {carrier}  {delay:>5.1f} min  {count:>7,} flights  {name}"
        for carrier, name, delay, count in outcome.worst
    ]
    return ["", "Worst average departure delay by carrier:", *rows]


def next_steps(stack: "Stack") -> list[str]:
    """Return the addresses of the parts, and two example commands: send an event, query its row."""
    from stack.dev_key import FILE_NAME, OPERATOR_FILE_NAME, operator_key
    from stack.login_link import login_link
    from stack.postgres import without_password

    dsn = stack.dsn if stack.owns_postgres else without_password(stack.dsn)
    curl = f"curl -i {stack.gateway}/v1/events -H 'Content-Type: application/json' \\\n"
    curl += f"    -H 'Authorization: Bearer {stack.api_key}' \\\n   "
    select = "SELECT * FROM events.order_placed"
    link = login_link(stack.admin, operator_key(stack.data_dir))
    web = f"{link}   (logs in once, for ten minutes)" if link else f"{stack.admin}/ui"
    return [
        f"Web UI    {web}",
        f"Gateway   {stack.gateway}   (API: {stack.gateway}/docs)",
        f"Writer    {stack.writer}/metrics",
        f"Admin     {stack.admin}   (bin/onramp errors groups; key in {stack.data_dir / OPERATOR_FILE_NAME})",
        *([f"Transform {stack.transform}/status   (bin/onramp transforms list)"] if stack.transform else []),
        *([f"Alerts    {stack.prometheus}"] if stack.prometheus else []),
        f"Key       {stack.api_key}   (for development, kept in {stack.data_dir / FILE_NAME})",
        f"Kafka     {stack.bootstrap}",
        f"Postgres  {dsn}",
        *([f"Lake      {stack.data_dir / 'lake'}   ({stack.lake}/status)"] if stack.lake else []),
        *(line for name in sorted(stack.sources) for line in lines_of_source(stack, name)),
        "",
        "Send an event of your own:",
        f"  {curl} -d '{json.dumps(_ENVELOPE)}'",
        "and see its row:",
        f"  {_psql()} '{dsn}' -c '{select}'",
        "",
        *(_of_source(stack, dsn) if stack.source else []),
        "Ctrl-C stops everything.",
    ]


def lines_of_source(stack: "Stack", name: str) -> list[str]:
    """Return the location of a source's tables, and its missing settings."""
    from shared.postgres.source_dsns import SourceDsns
    from stack.source_secrets import folder_of

    source = stack.sources[name]
    where = f"the database {source.database}" if source.database else "Postgres above"
    schemas = ", ".join(source.schemas)
    lines = [f"Source    {name}: {schemas}.* → {source.publish}.* in {where}   (bin/onramp sources list)"]
    if not SourceDsns(folder_of(stack.data_dir)).find(source.dsn_env):
        lines.append(
            f"          not captured yet: export {source.dsn_env}, and in that shell run "
            f"`bin/onramp sources add {name} …` again"
        )
    return lines


def _of_source(stack: "Stack", dsn: str) -> list[str]:
    """Return commands that change a row of the demo's source, and show the change."""
    from stack.source_demo import NAME, SCHEMA, TABLES

    update = f"UPDATE {SCHEMA}.airlines SET name = 'Ours' WHERE carrier = 'UA'"  # noqa: S608 - constants of ours
    select = f"SELECT * FROM {NAME}.airlines WHERE carrier = 'UA'"  # noqa: S608
    return [
        f"A second database is captured: its tables {', '.join(TABLES)} of the schema {SCHEMA}",
        f"are tables of {NAME} here. Its rows are being read now (bin/onramp sources list); then change one:",
        f"  {_psql()} '{stack.source}' -c \"{update}\"",
        "and query it here:",
        f"  {_psql()} '{dsn}' -c \"{select}\"",
        "Try also DELETE, TRUNCATE, ALTER TABLE and a new table there.",
        "",
    ]


def _psql() -> str:
    """Return the path of psql: this machine's, else the embedded server's."""
    from stack.errors import StackError
    from stack.postgres import binaries

    try:
        return "psql" if shutil.which("psql") else str(binaries() / "psql")
    except StackError:
        return "psql"
