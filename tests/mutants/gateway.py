# ruff: noqa: T201 - a program for people
"""`make mutants`: removes one protection of the gateway at a time and expects red.

Works on a copy, so the tree that others use stays as it is.  A mutant that survives means
that a promise has no test; one whose text is no longer there means that this list is old.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
COPIED: Final = ("services", "shared", "stack", "tests", "clients", "docs", "pyproject.toml")
UNIT: Final = "tests/unit/ingest"
DOOR: Final = "tests/integration/ingest/test_bad_input.py"
KAFKA: Final = "tests/integration/ingest/test_gateway_kafka.py"
SINK: Final = "tests/contract/test_sink.py"
AT_ONCE: Final = 2


@dataclass(frozen=True)
class Mutant:
    """A protection, how it is removed, and the tests that must notice."""

    removes: str
    file: str
    old: str
    new: str
    tests: str = UNIT


QUICK: Final = (
    Mutant(
        "waiting for the acknowledgement",
        "accept.py",
        "outcomes = await sink.send([item.record for item in routed if item.record is not None])",
        "from services.ingest.sink import Receipt; outcomes = [Receipt('t', 0, 0) for _ in routed]",
    ),
    Mutant(
        "the producer's own bytes",
        "decode.py",
        "Item(bytes(raw), document)",
        "Item(str(document).encode(), document)",
    ),
    Mutant(
        "judging a bad batch item by item",
        "decode.py",
        "return _item_by_item(body, max_batch, refusal)",
        "raise refusal",
    ),
    Mutant(
        "the mark between lines",
        "decode.py",
        "documents[1::2] == [mark] * (len(lines) - 1)",
        "len(documents) == 2 * len(lines) - 1",
    ),
    Mutant("the limit of a batch", "decode.py", "if count > max_batch:", "if False:", DOOR),
    Mutant("the byte budget", "budget.py", "if self.held + size > self.limit:", "if False:"),
    Mutant("giving the budget back", "receive.py", "self._budget.give(self._taken)", "pass"),
    Mutant("the cap of the body", "receive.py", "if size > self._cap:", "if False:", DOOR),
    Mutant("the cap of inflation", "codecs.py", "if len(self.out) > self._cap:", "if False:", DOOR),
    Mutant("noticing a cut-off stream", "codecs.py", "if not self._codec.eof:", "if False:", DOOR),
    Mutant("closing after an unread body", "events.py", "if not body.read_whole:", "if False:", DOOR),
    Mutant(
        "the limit of depth", "check.py", "strict_json.check_depth(item.value, item.document)", "pass", DOOR
    ),
    Mutant("the limit of an event", "check.py", "if size > self._max_event_bytes:", "if False:", DOOR),
    Mutant("reserved names", "check.py", "if wire.is_reserved(name):", "if False:"),
    Mutant("grants of event names", "check.py", "not sender.key.may_send(name)", "False"),
    Mutant("grants of destinations", "check.py", "not key.may_address(named)", "False"),
    Mutant("JSON Schemas", "check.py", "self._schemas.check(name, item.document)", "pass"),
    Mutant("following the registry", "check.py", "if snapshot is not self._schemas.snapshot:", "if False:"),
    Mutant("the retriever that refuses", "schemas.py", "retriever=_refuse", "retriever=lambda uri: {}"),
    Mutant("the cap of names", "names.py", "if len(used) >= cap:", "if False:"),
    Mutant("comparing secrets", "senders.py", "or not any(matches)", "or not matches"),
    Mutant("keys in production", "senders.py", "and not self._keys_needed", ""),
    Mutant("one key only", "senders.py", "if len(given) != 1:", "if not given:", UNIT),
    Mutant("quotas", "quotas.py", "if wait > 0:", "if False:"),
    Mutant("the list of origins", "cors.py", "if origin not in self._origins:", "if False:"),
    Mutant(
        "the size of headers",
        "protocol.py",
        "if self._header_bytes > self.settings.max_header_bytes:",
        "if False:",
        DOOR,
    ),
    Mutant("the host", "protocol.py", "or not _HOST.fullmatch(value)", "or False", DOOR),
    Mutant(
        "the clock of slow requests",
        "protocol.py",
        "if self._incomplete and not self.transport.is_closing():",
        "if False:",
        DOOR,
    ),
    Mutant("production needs keys", "app.py", "if not registry.snapshot().keys:", "if False:"),
    Mutant("production needs replicas", "app.py", "if kafka.min_insync < _PRODUCTION_REPLICAS:", "if False:"),
    Mutant("resending what syslog read", "syslog_listener.py", "lines = again", "lines = []"),
    Mutant(
        "the bound of the syslog queue",
        "syslog_listener.py",
        "> self._settings.syslog_queue_bytes:",
        "> 10**12:",
    ),
)

SLOW: Final = (
    Mutant("our own deadline", "kafka_sink.py", "if self._expire(clock()):", "if False:", KAFKA),
    Mutant(
        "replacing a wedged producer",
        "kafka_lanes.py",
        "self._producers.replace(generation,",
        "(lambda *_: None)(generation,",
        KAFKA,
    ),
    Mutant("refusing unsafe topics", "kafka_topics.py", "self._refuse_unsafe(topic, config)", "pass", KAFKA),
    Mutant(
        "knowing the topic's limit",
        "kafka_sink.py",
        "if len(record.value) + len(key) > room:",
        "if False:",
        KAFKA,
    ),
    Mutant(
        "one flight per partition",
        "kafka_lanes.py",
        "await self._fly(self._waiting.popleft(), generation)",
        "asyncio.ensure_future(self._fly(self._waiting.pop(), generation))",
        SINK,
    ),
    Mutant(
        "a success at SIGTERM",
        "__main__.py",
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))",
        "pass",
        KAFKA,
    ),
)


def main() -> None:
    """Run the mutants; exit 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="those that need a broker as well")
    parser.add_argument("--only", default="", help="those whose protection contains this text")
    given = parser.parse_args()
    mutants = [m for m in (QUICK + SLOW if given.all else QUICK) if given.only in m.removes]
    with tempfile.TemporaryDirectory(prefix="onramp-mutants-") as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda n: _survives(mutants[n], Path(folder) / str(n)), range(len(mutants))))
    survivors = [mutant for mutant, survived in zip(mutants, results, strict=True) if survived]
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants were noticed")
    if survivors:
        sys.exit("survivors: " + ", ".join(mutant.removes for mutant in survivors))


def _survives(mutant: Mutant, copy: Path) -> bool:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, copy / name)
    target = copy / "services" / "ingest" / mutant.file
    text = target.read_text("utf-8")
    if mutant.old not in text:
        sys.exit(f"{mutant.file} no longer has the text of the mutant without {mutant.removes}")
    target.write_text(text.replace(mutant.old, mutant.new), "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutant.tests]
    done = subprocess.run(
        command, cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, check=False
    )
    noticed = done.returncode == 1
    print(f"{'noticed ' if noticed else 'SURVIVED'}  without {mutant.removes}", flush=True)
    if done.returncode not in {0, 1}:
        print(done.stdout.decode()[-2000:], done.stderr.decode()[-2000:])
    shutil.rmtree(copy)
    return not noticed


if __name__ == "__main__":
    main()
