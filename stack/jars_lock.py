"""Writes `jars.lock`: run `python -m stack.jars_lock` after changing the sets below.

Dependencies are resolved transitively, but for Debezium's: its jars are listed one by one, because its POM
would bring a newer Kafka than the worker that loads it.
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from stack.cache import sha256_of
from stack.jars import LOCK_FILE, fetch

#: Both log through SLF4J 1.7, and their POMs bring no binding to log4j's core.
_LOG4J = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3"
BROKER = ("org.apache.kafka:kafka_2.13:4.2.0", _LOG4J)
#: A Kafka Connect worker of the broker's version.
CONNECT = ("org.apache.kafka:connect-runtime:4.2.0", _LOG4J)
DEBEZIUM = (
    *(
        f"io.debezium:debezium-{name}:3.7.0.Final"
        for name in (
            "connector-postgres",
            "connector-common",
            "connect-plugins",
            "api",
            "util",
            "config",
            "openlineage-api",
        )
    ),
    "org.postgresql:postgresql:42.7.13",
    "com.google.protobuf:protobuf-java:3.25.5",
    "com.datadoghq:sketches-java:0.8.2",
)
_HEADER = """\
# Every jar that the embedded stack uses, with its SHA-256. Written by
# `python -m stack.jars_lock`; do not edit by hand.
"""


def main() -> None:
    """Resolve the set, download every jar once for its checksum, write the lock file."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sets = {
            "broker": _with_dependencies(BROKER, folder),
            "connect": [*_with_dependencies(CONNECT, folder), *DEBEZIUM],
        }
        LOCK_FILE.write_text(_HEADER + locked_sets(sets, folder), "utf-8")
    sys.stdout.write(f"{LOCK_FILE.name}: {sum(map(len, sets.values()))} jars\n")


def locked_sets(sets: Mapping[str, Sequence[str]], scratch: Path) -> str:
    """Return the lock of `sets` (coordinates by name), each jar downloaded to `scratch` for its checksum."""
    text = ""
    for name, jars in sets.items():
        text += f"\n[{name}]\njars = [\n"
        for coordinates in jars:
            digest = sha256_of(fetch(coordinates, scratch))
            text += f'    {{ coordinates = "{coordinates}", sha256 = "{digest}" }},\n'
        text += "]\n"
    return text


def _with_dependencies(roots: tuple[str, ...], folder: Path) -> list[str]:
    from jgo.maven import MavenContext  # noqa: PLC0415 - slow to import, a developer's tool

    context = MavenContext(repo_cache=folder, timeout=60)
    versions: dict[tuple[str, str], str] = {}
    # One root after another: resolved together, the second one's version management would
    # change the broker's own dependencies. The first to name an artifact decides.
    for root in roots:
        inputs, others = context.resolver.resolve([context.create_dependency(root)])
        for each in (*inputs, *others):
            versions.setdefault((each.groupId, each.artifactId), each.version)
    return [f"{group}:{artifact}:{version}" for (group, artifact), version in versions.items()]


if __name__ == "__main__":
    main()
