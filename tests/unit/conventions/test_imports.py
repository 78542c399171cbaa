"""Imports point one way, and a driver is known only to the files that own it."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.unit.conventions.tree import imports, package_of, product_files, report, tree_of

# Who may import what of ours; the longest folder that holds the file decides.
MAY_IMPORT = {
    "shared": ["shared"],
    # It is installed where nothing else of ours is.
    "clients": ["clients.python.onramp_client"],
    "stack": ["stack", "shared", "clients.python.onramp_client"],
    "services": ["shared"],
    "services/ingest": ["services.ingest", "shared"],
    "services/writer": ["services.writer", "shared"],
    # It shows sources as the command line does, and only reads them.
    "services/admin": ["services.admin", "services.ops", "services.cdc.setup", "shared"],
    "services/ops": ["services.ops", "shared"],
    "services/cdc": ["services.cdc", "shared"],
    "services/tracer": ["services.tracer", "shared"],
    "services/transform": ["services.transform", "shared"],
    "services/lake": ["services.lake", "shared"],
    # The command line starts the stack on this machine, and its verbs for operators are the
    # admin service's, or prepare sources; the gateway and the writer are programs to it.
    "services/cli": [
        "services.cli",
        "services.admin",
        "services.ops",
        "services.cdc",
        # Tests of functions, which need neither Kafka nor Spark.
        "services.transform.author",
        "services.transform.function",
        # Maintenance of the lake's tables, which needs neither Kafka nor Spark.
        "services.lake.compaction",
        "stack",
        "shared",
        "clients.python.onramp_client",
    ],
}

# The adapter files that own a driver. A file that is added here needs a reason to speak
# to the driver itself rather than through the port beside it.
OWNERS = {
    "aiokafka": [
        "services/admin/*kafka_*.py",
        "services/ops/*kafka_*.py",
        "services/cdc/*kafka_*.py",
        "services/tracer/kafka_packets.py",
        "services/ingest/send/kafka_*.py",
        "services/ingest/send/partition_queue.py",
        "services/ingest/send/second_producer.py",
        "shared/registry/kafka_log.py",  # the gateway, the writer and the command line read one log
        "shared/kafka_topic_ids.py",  # the same of the topics' UUIDs
        "shared/kafka_group_offsets.py",  # the writer and the admin service ask for one group's offsets
        "services/writer/driver/app.py",  # its errors alone: the loop decides what waits
        "services/writer/driver/collector.py",  # its errors alone: what cannot be read is shown as it was
        "services/writer/kafka/cluster.py",
        "services/writer/kafka/producer.py",
        "shared/kafka_own_topics.py",
        "shared/kafka_transaction_errors.py",  # its errors alone, of the lake's and the transforms' producers
        "shared/kafka_schemas.py",
        "services/transform/*kafka_*.py",
        "services/lake/*kafka_*.py",
        "shared/spark/driver_process.py",  # its errors alone: the session decides what waits
        "services/transform/lane/task.py",  # as above: the run ends
        "shared/kafka_read/*.py",
    ],
    # The files that hold SQL, and those that pass its connection on.
    "psycopg2": [
        "services/admin/*_sql.py",
        "services/admin/jobs/job_session.py",  # hands its connection on
        "services/admin/jobs/job_sets.py",  # as above
        "services/admin/jobs/rehearse.py",  # as above
        "services/admin/jobs/replay.py",  # as above
        "services/ops/*_sql.py",
        "services/cdc/merge/*.py",  # all of it is SQL
        "services/cdc/merger/merger.py",
        "services/cdc/schema/migrations.py",
        "services/cdc/*_sql.py",
        "services/tracer/rows_sql.py",
        "services/transform/*_sql.py",
        "services/writer/columns/catalog.py",
        "services/writer/changes/append.py",
        "services/writer/persist/copy.py",
        "services/writer/persist/copy_new_rows.py",
        "services/writer/persist/encodings.py",
        "services/writer/settle/holds.py",
        "services/writer/persist/insert_spec.py",
        "services/writer/persist/insert.py",
        "services/writer/persist/isolate_rows.py",
        "services/writer/persist/landing_tables.py",
        "services/writer/persist/repeats.py",
        "services/writer/settle/ledger.py",
        "services/writer/park/outbox.py",
        "services/writer/driver/standby.py",
        "services/writer/databases/owner.py",
        "services/writer/persist/persist.py",
        "services/writer/postgres/pool.py",
        "services/writer/postgres/unusable.py",
        "services/writer/postgres/database.py",
        "services/writer/postgres/error_faults.py",
        "services/writer/waiting/release.py",  # hands its connection on
        "services/writer/waiting/waiting_rows.py",
        "services/writer/replay/land.py",  # as above
        "services/writer/replay/target_table.py",
        "services/writer/replay/rehearse.py",
        "services/writer/replay/rehearsed_rows.py",
        "services/writer/replay/replay.py",
        "services/writer/replay/staged_attempts.py",
        "services/writer/settle/settlement.py",
        "services/writer/persist/stage.py",
        "services/writer/persist/typed_table.py",
        "services/writer/persist/small_tables.py",
        "services/writer/settle/waiting_table.py",
        "services/writer/persist/table_copies.py",
        "services/writer/persist/table_rights.py",
        "services/writer/plan/survey.py",
        "services/writer/plan/task.py",  # its errors alone: a table that fails is one, the others go on
        "shared/migrations.py",
        "shared/postgres/*.py",
        "stack/*.py",
    ],
    "pyspark": ["shared/spark/*.py"],
    "duckdb": ["services/ops/lake/delta_query.py"],
    "deltalake": ["shared/lake/delta_*.py", "services/lake/*delta_*.py", "services/ops/*delta_*.py"],
    "confluent_kafka": ["stack/kafka_probe.py"],
}
OURS = ("clients", "services", "shared", "stack", "tests", "docs", "loadtest")


#: Mistakes, each in a file where the rules forbid it.
BREACHES = [
    ("services/ingest/x.py", "from services.writer.sort import sort"),
    ("services/ingest/x.py", "from services import writer"),
    ("services/ingest/x.py", "import services.writer.sort.sort as s"),
    ("services/ingest/x.py", "from ..writer import sort"),
    ("services/writer/x.py", "def f():\n    from services.ingest.check.check import check"),
    ("services/writer/x.py", "from stack.jars import ensure_jars"),
    ("services/cli/x.py", "from services.writer.driver.app import WriterProcess"),
    ("services/x.py", "import services.writer"),
    ("shared/x.py", "import services.writer"),
    ("shared/registry/x.py", "import stack"),
    ("stack/x.py", "from services.cli import up"),
    ("clients/python/onramp_client/x.py", "from shared import wire"),
    ("services/writer/x.py", "from clients.python.onramp_client import Onramp"),
    ("shared/x.py", "from tests.fixtures import writer"),
    ("services/ingest/check/check.py", "import aiokafka.errors"),
    ("services/ingest/check/check.py", "import psycopg2"),
    ("services/writer/sort/sort.py", "from pyspark.sql import DataFrame"),
    ("shared/wire.py", "from aiokafka import AIOKafkaProducer"),
    ("services/writer/audit.py", "import confluent_kafka"),
]
ALLOWED = [
    ("services/ingest/x.py", "from services.ingest.check import check\nfrom shared import wire\nimport json"),
    ("services/ingest/x.py", "from . import check"),
    ("services/ingest/send/kafka_x.py", "import aiokafka"),
    ("services/cli/x.py", "from stack.up import Stack"),
    ("services/ingest/x.py", "import sharedlib, services_of_others"),
]


def breaches(file: Path, tree: ast.Module) -> Iterator[str]:
    """Yield the rules that `tree`, as the code of `file`, breaks."""
    folder = max((f for f in MAY_IMPORT if file.is_relative_to(f)), key=len)
    for line, module in imports(tree, package_of(file)):
        top = module.split(".")[0]
        if top in OURS and not any(f"{module}.".startswith(f"{allowed}.") for allowed in MAY_IMPORT[folder]):
            yield f"{file}:{line}: imports {module}; {folder} may import {MAY_IMPORT[folder]}"
        if top in OWNERS and not any(fnmatch(str(file), owner) for owner in OWNERS[top]):
            yield f"{file}:{line}: imports {module}, which belongs to {OWNERS[top]}: use their port"


def test_files_import_only_what_they_may() -> None:
    offenders = [breach for file in product_files() for breach in breaches(file, tree_of(file))]
    assert offenders == [], report(offenders)


def test_every_breach_is_noticed() -> None:
    missed = [(file, code) for file, code in BREACHES if not list(breaches(Path(file), ast.parse(code)))]
    assert missed == []


def test_allowed_import_is_no_breach() -> None:
    assert [breach for file, code in ALLOWED for breach in breaches(Path(file), ast.parse(code))] == []


def test_the_owners_of_a_driver_use_it() -> None:
    used = {
        file: {module.split(".")[0] for _, module in imports(tree_of(file), package_of(file))}
        for file in product_files()
    }
    offenders = []
    for driver, owners in OWNERS.items():
        for owner in owners:
            files = [file for file in used if fnmatch(str(file), owner)]
            if files and not any(driver in used[file] for file in files):
                offenders.append(f"no file of {owner} imports {driver} any more: take it from OWNERS")
    assert offenders == [], report(offenders)


@pytest.mark.parametrize("module", ["services.ingest.app", "services.cli.app"])
def test_a_light_process_does_not_import_heavy_libraries(module: str) -> None:
    heavy = {"numpy", "pyarrow", "pyspark", "deltalake", "duckdb"}
    program = f"import sys, {module}; print(*{heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
