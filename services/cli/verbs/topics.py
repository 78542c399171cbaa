"""`onramp topics`: the topics of events, and the shapes of their newest records."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from services.cli.connection_options import Where, with_where_options
from services.cli.exits import Exit, complain, exits_when_unavailable, finish
from services.cli.options import JsonOption
from services.cli.show.tables import print_table
from services.cli.topic_actions import ControlOption, ReasonOption, written_down

if TYPE_CHECKING:
    from services.ops.kafka_logs import LogRecord
    from services.ops.operate import kafka_new_topic

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

TopicArgument = Annotated[str, typer.Argument(help="The topic, or the name of its event type.")]
LastOption = Annotated[int, typer.Option("--last", min=1, max=1000, help="Number of the newest records.")]
PartitionsOption = Annotated[int | None, typer.Option(min=1, help="Its partitions.", show_default=False)]
ReplicationOption = Annotated[int | None, typer.Option(min=1, help="Its replicas.", show_default=False)]
RetentionOption = Annotated[
    str | None, typer.Option(help="Retention of events: 36h, 30d.", show_default=False)
]
KeepOption = Annotated[str, typer.Option("--retention", help="New retention of events: 36h, 30d.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Have Kafka validate the change, and change nothing.")
]
_NUMBERS: Final = ("PARTITIONS", "REPLICAS", "RETENTION", "EVENTS", "EVENTS/S", "LAG", "BYTES")
_DAY_MS: Final = 86_400_000


@app.callback()
def topics() -> None:
    """See the topics of events, and the shapes of their newest records.

    Examples:
    onramp topics list

    onramp topics sample order_placed --last 5

    onramp topics create order_placed --partitions 6 --retention 30d

    onramp topics alter order_placed --retention 7d --dry-run
    """


@app.command(name="list")
@with_where_options
def list_(where: Where, *, as_json: JsonOption = False) -> None:
    """Print each topic with its event type, partitions, replicas, retention, events, rate, lag and bytes.

    Onramp's own topics are excluded. The rate is of the last minute; the lag is the number of unsettled
    records; the bytes are those of one replica. A topic whose retention differs from its event type's is
    reported. Exits with 3 when Kafka cannot be reached. Example:

    onramp topics list --json
    """
    from services.ops.operate.topics import facts
    from services.ops.registry.topic_owners import facts_with_types

    with exits_when_unavailable():
        registry, topics = where.registry(), asyncio.run(facts(where.brokers))
    found = [facts_with_types(registry, each) for each in topics]
    if as_json:
        print(json.dumps([each | {"event_type": ", ".join(each["event_types"]) or None} for each in found]))
        return
    print_table(("TOPIC", "TYPE", *_NUMBERS), map(_row, found), _NUMBERS)
    for each in found:
        if each["retention_differs"]:
            print(_differing(each))


@app.command()
@with_where_options
def sample(where: Where, topic: TopicArgument, *, last: LastOption = 10, as_json: JsonOption = False) -> None:
    """Print the newest records of a topic as shapes of their values; personal fields are hidden.

    Letters are shown as `a` or `A`, digits as `9`. A name with control characters is printed escaped. Exits
    with 1 when there is no such topic, 3 when Kafka cannot be reached. Example:

    onramp topics sample order_placed --last 5
    """
    from services.ops.registry.topic_owners import personal_of, shown

    with exits_when_unavailable():
        name, records = _newest(where, topic, last)
        personal = personal_of(where.registry(), name)
    found = [shown(record, personal) for record in records]
    if as_json:
        print(json.dumps(found))
        return
    for each in found:
        print(f"{each['partition']}/{each['offset']} {each['time'] or '-'} {json.dumps(each['event'])}")


@app.command()
@with_where_options
def create(
    where: Where,
    topic: TopicArgument,
    *,
    partitions: PartitionsOption = None,
    replication: ReplicationOption = None,
    retention: RetentionOption = None,
    reason: ReasonOption = "",
    control: ControlOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Create a topic as the gateway would at its first event, with the settings given here.

    Default partitions and retention are those of the registry's event type, else Kafka's and those of
    ONRAMP_KAFKA_*. With --dry-run Kafka only validates. Exits with 1 when the gateway would create another
    topic or Kafka refuses, 3 when it cannot be reached. Examples:

    onramp topics create order_placed --partitions 6 --retention 30d

    onramp topics create order_placed --reason "the shop opens on Monday"
    """
    from services.ops.operate import kafka_new_topic, topics

    name = topics.topic_of(topic)
    wanted = kafka_new_topic.Wanted(
        topic=name, partitions=partitions, replication=replication, retention=retention
    )
    why = "" if dry_run else reason
    with (
        exits_when_unavailable(),
        written_down(where, control, "create topic", f"topic {name}", why) as take_back,
    ):
        if refused := _refused(wanted, where, is_dry=dry_run):
            take_back()
    made = {"topic": name, "created": not refused and not dry_run, "reason": refused}
    done = f"{name} {'can be' if dry_run else 'is'} created."
    problem = f"{json.dumps(name)} was not created: {refused}"
    finish(made, worked=not refused, as_json=as_json, done=done, problem=problem)


def _refused(wanted: "kafka_new_topic.Wanted", where: Where, *, is_dry: bool) -> str:
    """Create a topic; return the reason of a refusal."""
    from services.ops.operate import kafka_new_topic

    try:
        spec = kafka_new_topic.spec_of(wanted, where.registry().event_types, where.kafka_settings)
        return asyncio.run(kafka_new_topic.create(spec, where.kafka_settings, is_dry=is_dry))
    except ValueError as error:
        return str(error)


@app.command()
@with_where_options
def alter(
    where: Where,
    topic: TopicArgument,
    *,
    retention: KeepOption,
    reason: ReasonOption = "",
    control: ControlOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Change a topic's retention; Kafka deletes older events, landed or not.

    With --dry-run Kafka only validates. Exits with 1 when there is no such topic of events or Kafka
    refuses, 3 when it cannot be reached. Examples:

    onramp topics alter order_placed --retention 30d --dry-run

    onramp topics alter order_placed --retention 7d --reason "the disk is filling"
    """
    from services.ops.operate import kafka_retention, topics

    name = topics.topic_of(topic)
    why = "" if dry_run else reason
    with exits_when_unavailable(), written_down(where, control, f"keep {retention}", f"topic {name}", why):
        try:
            done = asyncio.run(kafka_retention.change(where.brokers, name, retention, is_dry=dry_run))
        except ValueError as error:
            complain(f"{json.dumps(name)} was not changed: {error}")
            raise typer.Exit(Exit.FAILED) from None
    said = done.as_dict() | {"dry_run": dry_run}
    keeps = "would keep" if dry_run else "keeps"
    line = f"{name} {keeps} events {_long(done.after_ms)}, not {_long(done.before_ms)}."
    finish(said, worked=True, as_json=as_json, done=line, problem="")


def newest_values(where: Where, topic: str, last: int) -> list[bytes]:
    """Return the values of a topic's newest records. Raises `InfrastructureError`; exits if it is missing."""
    return [record.value for record in _newest(where, topic, last)[1] if record.value is not None]


def _newest(where: Where, topic: str, last: int) -> "tuple[str, list[LogRecord]]":
    from services.ops.operate.newest_records import newest
    from services.ops.operate.topics import topic_of

    for name in dict.fromkeys((topic_of(topic), topic)):
        found = asyncio.run(newest(where.brokers, name, last))
        if found is not None:
            if not found.is_whole:
                complain(f"{name}: fewer records than there are, because they are large or Kafka is slow")
            return name, found.records
    complain(f"there is no topic {json.dumps(topic)}: `onramp topics list` prints the topics")
    raise typer.Exit(Exit.FAILED)


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    named = ", ".join(each["event_types"])
    numbers = [str(each[name]) for name in ("events", "rate", "lag")]
    size = "" if each["bytes"] is None else f"{each['bytes']:,}"
    counts = str(each["partitions"]), str(each["replicas"]), _long(each["retention_ms"])
    return (each["topic"], named, *counts, *numbers, size)


def _differing(each: dict[str, Any]) -> str:
    name, said = each["topic"], each["retention_said"]
    return (
        f"{name} keeps events {_long(each['retention_ms'])}, and its event type says {said}: "
        f"`onramp topics alter {name} --retention {said}`"
    )


def _long(milliseconds: int) -> str:
    return "unlimited" if milliseconds < 0 else f"{milliseconds / _DAY_MS:g} d"
