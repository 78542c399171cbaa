"""What is kept beside a parked event's bytes: who it is, and what the database said."""

from typing import Final

from tests.mutants.machine import Mutant

REASONS: Final = "tests/integration/admin/test_reasons.py"

PARKED: Final = (
    Mutant(
        "what the database said of a row, as fields",
        "persist/row_errors.py",
        "    return error.of_database(sqlstate, named, constraint)\n",
        "    return error\n",
        REASONS,
    ),
    Mutant(
        "that a version fits into any database's encoding",
        "park/identity.py",
        '[v and v.encode("ascii", "backslashreplace").decode() for v in versions]',
        "list(versions)",
        REASONS,
    ),
    Mutant(
        "that a header of another client is not repeated as it is",
        "park/identity.py",
        "    received = _as_texts(received_at(records))\n",
        '    received = [h and h.decode() for h in records.column("received_at").to_pylist()]\n',
        REASONS,
    ),
)
