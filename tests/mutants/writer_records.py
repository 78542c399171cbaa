"""The protections that keep one record from stopping its neighbours."""

from typing import Final

from tests.mutants.machine import Mutant

NUMBERS: Final = "tests/unit/writer/test_numbers.py"

RECORDS: Final = (
    Mutant(
        "an exponent of any length",
        "json_values.py",
        "int(digits) if len(digits) <= _EXPONENT_DIGITS else 10**_EXPONENT_DIGITS",
        "int(digits)",
        NUMBERS,
    ),
)
