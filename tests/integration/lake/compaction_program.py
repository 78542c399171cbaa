"""Programs of the tests of compaction: `compact` until nothing is left, or `append` in small commits."""

import sys
from datetime import UTC, datetime

from deltalake import DeltaTable

from services.lake.compaction.delta_compact import compact
from services.lake.compaction.policy import Policy
from tests.fixtures.delta_tables import append


def main() -> None:
    """Run the program that the arguments name."""
    match sys.argv[1:]:
        case ["compact", uri]:
            policy = Policy(min_small_files=4)
            done = sum(len(each.partitions) for each in compact(DeltaTable(uri), policy, _now()))
            sys.stdout.write(f"{done}\n")
        case ["append", uri, partition, commits]:
            for number in range(1, int(commits) + 1):
                append(uri, int(partition), number * 10)


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    main()
