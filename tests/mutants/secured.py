"""`python -m tests.mutants.secured`: what all services share: secrets, certificates, the backoff."""

from typing import Final

from tests.mutants.machine import Mutant, run

_KAFKA: Final = "tests/unit/shared/test_kafka_security.py"
_TLS: Final = "tests/unit/shared/test_tls.py"
_TIMERS: Final = "tests/unit/writer/test_timers.py"
_CLIENTS: Final = "tests/integration/tls/test_clients.py"

QUICK: Final = (
    Mutant(
        "that values are shown as their shape",
        "mask.py",
        '    plain = _DIGIT.sub("9", _UPPER.sub("A", _LOWER.sub("a", cut)))\n',
        "    plain = cut\n",
        "tests/unit/shared/test_mask.py",
    ),
    Mutant(
        "that personal fields are not shown at all",
        "mask.py",
        "if path in hidden:",
        "if False:",
        "tests/unit/shared/test_mask.py",
    ),
    Mutant(
        "a password that is read at each login",
        "kafka_security.py",
        "return read_secret(self._file).encode(encoding, errors)",
        "return str.encode(self, encoding, errors)",
        f"{_KAFKA}::test_a_password_is_what_the_file_says_now",
    ),
    Mutant(
        "a password that says nothing of itself",
        "kafka_security.py",
        'return f"<the password in {self._file}>"',
        "return str.__repr__(self)",
        f"{_KAFKA}::test_nothing_that_travels_holds_the_password",
    ),
    Mutant(
        "names of files instead of secrets",
        "kafka_security.py",
        'return f"<the password in {self._file}>"',
        "return str.__repr__(self)",
        f"{_KAFKA}::test_nothing_that_travels_holds_the_password",
    ),
    Mutant(
        "passwords that all clients can take",
        "kafka_security.py",
        "if not secret or _is_unusable(secret):",
        "if not secret:",
        f"{_KAFKA}::test_a_password_that_not_all_clients_can_take_is_refused",
    ),
    Mutant(
        "other consumers after a change",
        "kafka_security.py",
        "files = (self.password_file,",
        "files = (",
        f"{_KAFKA}::test_a_change_of_the_file_is_another_moment",
    ),
    Mutant(
        "files by their full paths",
        "settings.py",
        "f and f.absolute()",
        "f",
        f"{_KAFKA}::test_files_are_named_by_their_full_paths",
    ),
    Mutant("certificates that are read again", "tls.py", "if seen != self._seen:", "if False:", _TLS),
    Mutant(
        "certificates that stay while others cannot be read",
        "tls.py",
        "except (OSError, ValueError) as e:",
        "except ValueError as e:",
        f"{_TLS}::test_half_of_a_renewal_leaves_what_was",
    ),
    Mutant(
        "one line for certificates that cannot be read",
        "tls.py",
        "if seen != self._unreadable:",
        "if True:",
        f"{_TLS}::test_half_of_a_renewal_leaves_what_was",
    ),
    Mutant("a pause that grows", "backoff.py", "self._failures += 1", "pass", _TIMERS),
    Mutant("the bound of a pause", "backoff.py", ", self._most)", ", 5.0)", _TIMERS),
    Mutant(
        "the pause before it is tried again",
        "backoff.py",
        "self.pause(seconds)\n        return seconds",
        "return seconds",
        _TIMERS,
    ),
)
SLOW: Final = (
    Mutant(
        "clients that must have a certificate",
        "tls.py",
        "context.verify_mode = ssl.CERT_REQUIRED",
        "pass",
        "tests/integration/tls/test_doors.py::test_who_has_none_of_ours_is_not",
    ),
    Mutant(
        "the reason why a certificate is refused",
        "tls.py",
        "context.sslobject_class = _Explained",
        "pass",
        f"{_CLIENTS}::test_a_bad_certificate_is_refused_with_what_to_do",
    ),
)

if __name__ == "__main__":
    run("shared", QUICK, SLOW)
