"""Writes pages of docs/ and dashboards from the code: run `python -m docs.generate`.

They say what the code says, so they are made from it; tests/unit/conventions fails when they
lag behind.
"""

import importlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from docs import dashboards
from docs.layers import layers_page
from docs.schema_reference import schema_page
from services.admin.api.metrics import AdminMetrics
from services.cdc.agent.metrics import AgentMetrics
from services.cli.app import app
from services.cli.show.audit_metrics import AuditMetrics
from services.ingest.observe import metrics
from services.lake.compaction.metrics import CompactionMetrics
from services.lake.observe.metrics import LakeMetrics
from services.tracer.metrics import TracerMetrics
from services.transform.observe.metrics import TransformMetrics
from services.writer.observe.metrics import Metrics
from services.writer.settings import DatabaseSettings, WriterSettings
from shared import errors
from shared.errors import Fault, Kind
from shared.fix_links import with_links

ROOT: Final = Path(__file__).resolve().parent.parent

_ERRORS: Final = """\
# Errors

Made by `python -m docs.generate` from [shared/errors.py](../shared/errors.py); do not edit
it by hand. The gateway serves a page for each code at `/errors/<code>`.

| kind | fault of | the event |
|---|---|---|
| rejected | the sender | was rejected by the gateway with a 4xx answer and is not on Kafka |
| parked | the event or its sender | is stored with its reason; a retry does not help, an operator decides |
| waiting | Onramp or the infrastructure | is stored, or was not accepted yet; a retry helps |

Parked events are [replayed](parked-events.md) after their cause is fixed, or
[sent again](parked-events.md#sending-a-parked-event-again). *Log* is the level of the log line: a client's
fault is a warning, a fault of Onramp or the infrastructure is an error.
"""

_HEADINGS: Final = {
    Kind.REJECTED: "## Rejected: the sender corrects it and sends again",
    Kind.PARKED: "## Parked: an operator decides",
    Kind.WAITING: "## Waiting: a retry helps",
}

_CLI: Final = """\
# The command line

Made by `python -m docs.generate` from the help of the verbs in [services/cli](../services/cli); do not
edit it by hand. Run `bin/onramp` from the project's folder, or by its path from any folder.
"""

_SHARED_OPTIONS: Final = """\
Several verbs have these options. Each verb's section names the ones that it has; all have `--help`.
"""
#: From how many verbs on an option is described once.
_SHARED_BY: Final = 4
#: The help option of each verb, and the heading above it where no other option follows it.
_HELP_OPTION: Final = re.compile(
    r"(?:\n\nOptions:(?=\n  --help +Show[^\n]*(?:\n\n|$)))?\n  --help +Show this message and exit\."
)

_METRICS: Final = """\
# Metrics

Made by `python -m docs.generate` from the declarations of the metrics; do not edit it by
hand. Each service serves its metrics at `/metrics` in Prometheus' text format; `onramp audit --metrics FILE`
writes its metrics into a file. The name of a counter ends in `_total` there; a histogram has `_bucket`,
`_sum` and `_count`.

- Most counters of the writer start at zero with its process. Counters of events and warnings show the totals
  in the databases (`onramp.totals`, `onramp.warnings`), which a restart does not reset.
- A batch is counted when it is committed; drained and released events are counted every few seconds.
- A new series is shown at 0 for a minute (`ONRAMP_WRITER_NEW_COUNTER_SECONDS`), because Prometheus computes
  an increase between two samples.
- Above a limit of series, topics, tables and event types share the label `other`; step, database and outcome
  stay.
"""

_SETTINGS: Final = """\
# Settings

Made by `python -m docs.generate` from the settings classes; do not edit it by hand.
Settings are environment variables. A service reads and checks them when it starts. It does not start with an
invalid value, and prints a message that names the setting.
"""

_EACH_DATABASE: Final = """\
### Of each database

Fields of an object in `ONRAMP_WRITER_DATABASES`:
`{"onramp": {"max_connections": 12}, "warehouse": {"dsn": "postgresql://…", "schemas": ["shop"]}}`.
"""

#: Ports that `docker-compose.yml` publishes: variable, service and default.
_COMPOSE_PORTS: Final = (
    ("KAFKA", "Kafka", 9092),
    ("POSTGRES", "Postgres", 5432),
    ("GATEWAY", "the gateway", 8080),
    ("GATEWAY_ADMIN", "the gateway's pages for operators", 8090),
    ("WRITER", "the writer", 8081),
    ("ADMIN", "the admin service", 8082),
    ("AGENT", "the agent", 8084),
    ("TRACER", "the tracer", 8085),
    ("TRANSFORM", "the transform service", 8086),
    ("LAKE", "the lake service", 8087),
    ("COMPACTION", "the lake's compaction", 8088),
    ("PROMETHEUS", "Prometheus", 9090),
    ("GRAFANA", "Grafana", 3000),
)

#: Names that no settings class has: variables of the command line, the compose file and tests.
OTHER_VARIABLES: Final[Mapping[str, str]] = {
    "ONRAMP_DATA_DIR": "Folder of the data and logs of `onramp up`, as `--data-dir`.",
    "ONRAMP_API_KEY": "The key of `onramp send`, of a load run with a `--url`, and of the Lambda.",
    "ONRAMP_ADMIN_KEY": "An operator's key to the admin service, for `onramp errors`.",
    "ONRAMP_ADMIN_KEY_FILE": "The file with that key, as `--key-file` of `onramp errors`.",
    "ONRAMP_ADMIN_URL": "The admin service of `onramp errors`, as `--admin`.",
    "ONRAMP_URL": "The gateway of `onramp send`, as `--url`, and of the Lambda in clients/python.",
    "ONRAMP_SOURCE_SHOP": "The DSN of a source; `dsn_env` in the registry names the variable.",
    "ONRAMP_SOURCE_SHOP_PASSWORD": "The password in that DSN alone, for Kafka Connect, which reads no DSN.",
    "ONRAMP_CONNECT_KAFKA_PASSWORD": "Kafka Connect's environment only: its password at Kafka, with SASL "
    "(docs/tls.md).",
    "ONRAMP_EVENT_NAME": "The Lambda in clients/python: the event name of the records that it forwards.",
    "ONRAMP_CACHE": "Folder for downloaded jars, instead of `$XDG_CACHE_HOME/onramp` or `~/.cache/onramp`.",
    "ONRAMP_POSTGRES_PASSWORD": "Password of the database in `docker-compose.yml`, for volumes of an older "
    "version; a random one is made at the first start unless set.",
    "ONRAMP_COMPOSE_SOURCES": "Folder of the DSNs of sources in `docker-compose.yml`; `./sources` "
    "unless set.",
    **{
        f"ONRAMP_COMPOSE_{name}_PORT": f"Loopback port of {what} in `docker-compose.yml`; {port} unless set."
        for name, what, port in _COMPOSE_PORTS
    },
    "ONRAMP_LOAD_ORDER": "Load runs only: the file in which a run describes the load to its generator.",
    "ONRAMP_SOURCES_SEEDS": "Tests only: number of seeds that change whole tables (`make proof-sources`).",
    "ONRAMP_PARKED_FLIGHTS": "Tests only: number of flights of `make proof-parked`.",
    "ONRAMP_PLAN_FLIGHTS": "Tests only: number of flights of `make proof-plan`.",
    "ONRAMP_PROOF_FLIGHTS": "Tests only: number of flights of `make proof`.",
    "ONRAMP_FUZZ_EXAMPLES": "Tests only: number of bad requests of a fuzz test (`make fuzz`).",
    "ONRAMP_FAILPOINTS": "Tests only: failpoints and actions: `name=kill`, `name=pause`, `name=raise`, …",
    "ONRAMP_FAILPOINT_DIR": "Tests only: folder of pauses; a pause ends when its file is removed.",
    "ONRAMP_FAILPOINT_PID": "Tests only: the process that a `kill` failpoint ends, instead of its own.",
}


def errors_page() -> str:
    """The text of docs/errors.md."""
    raised = _raised()
    parts = [_ERRORS]
    for kind, heading in _HEADINGS.items():
        faults = [fault for fault in errors.TABLE.values() if fault.kind is kind]
        parts += [heading, _fault_table([fault for fault in faults if fault.code in raised])]
        if later := [fault for fault in faults if fault.code not in raised]:
            parts += ["Reserved codes, which are not used yet:", _fault_table(later)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _raised() -> set[str]:
    """The codes whose constants any code but the table itself names."""
    files = [*ROOT.glob("services/**/*.py"), *ROOT.glob("shared/**/*.py")]
    code = "\n".join(path.read_text("utf-8") for path in files if path != Path(errors.__file__))
    words = set(re.findall(r"\b[A-Z][A-Z_]+\b", code))
    return {fault.code for fault in errors.TABLE.values() if fault.code.upper() in words}


def _fault_table(faults: Iterable[Fault]) -> str:
    return _table(
        ("code", "step", "HTTP", "log", "what", "how to fix it"),
        (
            (
                f"`{fault.code}`",
                fault.step,
                "" if fault.status is None else str(fault.status),
                logging.getLevelName(fault.level).lower(),
                fault.title,
                with_links(fault.fix, lambda link: f"[{link.text}]({link.target})"),
            )
            for fault in faults
        ),
    )


def metrics_page() -> str:
    """The text of docs/metrics.md."""
    parts = [_METRICS]
    for service, source, registry in (
        ("Gateway", "services/ingest/observe/metrics.py", metrics.REGISTRY),
        ("Writer", "services/writer/observe/metrics.py", Metrics().registry),
        ("Agent", "services/cdc/agent/metrics.py", AgentMetrics().registry),
        ("Admin", "services/admin/api/metrics.py", AdminMetrics().registry),
        ("Tracer", "services/tracer/metrics.py", TracerMetrics().registry),
        ("Transform", "services/transform/observe/metrics.py", TransformMetrics().registry),
        ("Lake", "services/lake/observe/metrics.py", LakeMetrics().registry),
        ("Compaction", "services/lake/compaction/metrics.py", CompactionMetrics().registry),
        ("Audit", "services/cli/show/audit_metrics.py", AuditMetrics().registry),
    ):
        rows = sorted(_declared(registry))
        parts += [
            f"## {service}",
            f"[{source}](../{source})",
            _table(("name", "type", "labels", "meaning"), rows),
        ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _declared(registry: CollectorRegistry) -> Iterator[tuple[str, str, str, str]]:
    # A metric with labels shows itself only once it counts; the declarations have no public access.
    for metric in registry._collector_to_names:  # noqa: SLF001
        known = vars(metric)
        labels = ", ".join(known["_labelnames"])
        yield f"`{known['_name']}`", type(metric).__name__.lower(), labels, known["_documentation"]


def settings_page() -> str:
    """The text of docs/settings.md."""
    parts = [_SETTINGS]
    for module, settings in settings_classes():
        source = module.replace(".", "/") + ".py"
        rows = (
            (f"`{name}`", _default(field), _bounds(field), field.description or "")
            for name, field in _fields(settings)
        )
        parts += [
            f"## {settings.__name__.removesuffix('Settings')}",
            f"{(settings.__doc__ or '').strip().splitlines()[0]} ([{source}](../{source}))",
            _table(("variable", "default", "range", "meaning"), rows),
        ]
        if settings is WriterSettings:
            parts += [_EACH_DATABASE, _table(("name", "default", "range", "meaning"), _each_database())]
    parts += [
        "## Others",
        _table(("variable", "meaning"), ((f"`{n}`", says) for n, says in OTHER_VARIABLES.items())),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _each_database() -> Iterator[tuple[str, str, str, str]]:
    for name, field in DatabaseSettings.model_fields.items():
        yield f"`{name}`", _default(field), _bounds(field), field.description or ""


def cli_page() -> str:
    """The text of docs/cli.md: what `onramp --help` and each verb's own help say, shared options once."""
    group = typer.main.get_command(app)
    commands = [("onramp", group), *verbs(group, "onramp")]
    shared = _shared_options(commands)
    parts = [_CLI, _help(group, "onramp", shared), "## Shared options", _SHARED_OPTIONS]
    parts.append(_table(("option", "meaning"), ((f"`{n}`", says) for n, says in sorted(shared))))
    for name, command in commands[1:]:
        parts += [f"## {name}", _help(command, name, shared)]
        if names := [f"`{each[0].split(' <')[0]}`" for each in _options(command, name) if each in shared]:
            parts.append(f"Shared options: {', '.join(names)}.")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _shared_options(commands: Sequence[tuple[str, Any]]) -> set[tuple[str, str]]:
    """Names and help of the options that several verbs have, with the same words."""
    uses = Counter(option for name, command in commands for option in _options(command, name))
    shared = {option for option, count in uses.items() if count >= _SHARED_BY}
    names = Counter(name for name, _ in shared)
    return {(name, says) for name, says in shared if names[name] == 1}


def _options(command: Any, name: str) -> list[tuple[str, str]]:
    context = _context(command, name)
    records = ((p, p.get_help_record(context)) for p in command.params if p.param_type_name == "option")
    return [record for _, record in records if record]


def verbs(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every verb below `group`, and the verbs of a verb that is a group itself."""
    for verb, command in group.commands.items():
        yield f"{name} {verb}", command
        if hasattr(command, "commands"):
            yield from verbs(command, f"{name} {verb}")


def _help(command: Any, name: str, shared: Collection[tuple[str, str]]) -> str:
    context = _context(command, name)
    options = [p for p in command.params if p.param_type_name == "option"]
    hidden = [p for p in options if p.get_help_record(context) in shared]
    for option in hidden:
        option.hidden = True
    try:
        text = _HELP_OPTION.sub("", command.get_help(context).strip())
    finally:
        for option in hidden:
            option.hidden = False
    return f"```text\n{text.strip()}\n```"


def _context(command: Any, name: str) -> Any:
    # A fixed width: help wraps at the terminal's otherwise.
    return command.context_class(command, info_name=name, terminal_width=90, max_content_width=90)


def settings_classes() -> Iterator[tuple[str, type[BaseSettings]]]:
    """Every settings class, shared ones first, with the module that declares it."""
    services = [*sorted(ROOT.glob("services/*/settings.py")), *sorted(ROOT.glob("services/*/*/settings.py"))]
    shared = [ROOT / "shared/settings.py", ROOT / "shared/lake/settings.py"]
    for path in [*shared, *services, ROOT / "stack/connect_settings.py"]:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for value in vars(importlib.import_module(module)).values():
            if not (isinstance(value, type) and issubclass(value, BaseSettings)):
                continue
            # One that ignores further variables of its prefix reads another service's settings.
            if value.__module__ == module and value.model_config.get("extra") != "ignore":
                yield module, value


def variables() -> set[str]:
    """The names of all environment variables that Onramp knows."""
    return {name for _, each in settings_classes() for name, _ in _fields(each)} | set(OTHER_VARIABLES)


def _fields(settings: type[BaseSettings]) -> Iterator[tuple[str, FieldInfo]]:
    prefix = settings.model_config.get("env_prefix", "")
    for name, field in settings.model_fields.items():
        yield (prefix + name).upper(), field


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "none: must be set"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, SecretStr):
        value = value.get_secret_value()  # a default is public
    if value in ("", None) or (isinstance(value, (dict, list, tuple)) and not value):
        return "empty"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _bounds(field: FieldInfo) -> str:
    words = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    return ", ".join(
        f"{sign} {getattr(limit, name)}"
        for limit in field.metadata
        for name, sign in words.items()
        if hasattr(limit, name)
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/cli.md": cli_page,
    "docs/errors.md": errors_page,
    "docs/metrics.md": metrics_page,
    "docs/layers.md": layers_page,
    "docs/schema-reference.md": schema_page,
    "docs/settings.md": settings_page,
    **dashboards.pages(),
}


def main() -> None:
    """Write the pages."""
    for path, page in PAGES.items():
        (ROOT / path).write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
