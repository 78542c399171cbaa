"""Mutants: contracts that stay compatible, masked values, secrets and certificates."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "the bound of a comparison",
        "shared/contracts/compatibility.py",
        "self._left -= pairs",
        "pass",
        "tests/unit/contracts/test_compatibility.py::test_everything_gets_a_verdict_in_bounded_time",
    ),
    Mutant(
        "comparing types",
        "shared/contracts/rules.py",
        "if rejected := pair.kinds - kinds_of(pair.new):",
        "if rejected := frozenset():",
        "tests/unit/contracts/test_compatibility.py",
    ),
    Mutant(
        "comparing bounds",
        "shared/contracts/rules.py",
        "elif bound(pair.old, lower=lower, whole=whole) < ",
        "elif (9, 9) < ",
        "tests/unit/contracts/test_compatibility.py",
    ),
    Mutant(
        "comparing required fields",
        "shared/contracts/rules.py",
        "sorted(_required(pair.new) - _required(pair.old))",
        "()",
        "tests/unit/contracts/test_compatibility.py",
    ),
    Mutant(
        "comparing fields",
        "shared/contracts/rules.py",
        "            pair.then(old[name], schema, key, name)",
        "            pass",
        "tests/unit/contracts/test_compatibility.py",
    ),
    Mutant(
        "comparing other fields",
        "shared/contracts/rules.py",
        "        pair.then(rest, new, key)",
        "        pass",
        "tests/unit/contracts/test_compatibility.py",
    ),
    Mutant(
        "each alternative",
        "shared/contracts/compatibility.py",
        "return all(any(",
        "return any(any(",
        "tests/unit/contracts/test_compatibility.py",
    ),
    Mutant(
        "that values are shown as their shape",
        "shared/mask.py",
        '    plain = _DIGIT.sub("9", _UPPER.sub("A", _LOWER.sub("a", cut)))\n',
        "    plain = cut\n",
        "tests/unit/shared/test_mask.py",
    ),
    Mutant(
        "that personal fields are not shown at all",
        "shared/mask.py",
        "if path in hidden:",
        "if False:",
        "tests/unit/shared/test_mask.py",
    ),
    Mutant(
        "names of files instead of secrets",
        "shared/kafka_security.py",
        'return f"<the password in {self._file}>"',
        "return str.__repr__(self)",
        "tests/unit/shared/test_kafka_security.py::test_nothing_that_travels_holds_the_password",
    ),
    Mutant(
        "certificates that stay while others cannot be read",
        "shared/tls.py",
        "except (OSError, ValueError) as e:",
        "except ValueError as e:",
        "tests/unit/shared/test_tls.py::test_half_of_a_renewal_leaves_what_was",
    ),
    Mutant(
        "clients that must have a certificate",
        "shared/tls.py",
        "context.verify_mode = ssl.CERT_REQUIRED",
        "pass",
        "tests/integration/tls/test_listeners.py::test_client_with_a_missing_foreign_or_expired_certificate_is_refused",
    ),
)
