"""Remedies for failures of a source's connector, whose messages seldom name one."""

import re
from typing import Final

from shared.registry.sources import PASSWORD_SUFFIX

_MB: Final = 1 << 20
#: By a part of the reason; the first match applies.
_REMEDIES: Final = (
    (
        re.compile(r"password authentication failed|no password was provided"),
        (
            "the source refuses the password that Kafka Connect has: set {env} in its environment and "
            "restart it, or with onramp up run onramp sources add again with the new password"
        ),
    ),
    (
        re.compile(r"RecordTooLarge|larger than \d+, which is the value of the max.request.size"),
        (
            "a row is larger than {max_mb} MB with its metadata, and the source retains WAL until the row "
            "is gone: name its table in exclude, or make the row smaller and run onramp sources "
            "resync {name}"
        ),
    ),
    (
        re.compile(
            r"NumberFormatException|DateTimeParse|DateTimeException|For input string|"
            r"Conversion error|Invalid (?:value|Java object)|IllegalArgumentException"
        ),
        (
            "a column's type changed while Kafka Connect was down, and old values are decoded as the new "
            "type: onramp sources resync {name}"
        ),
    ),
)


def with_remedy(reason: str, *, name: str, dsn_env: str, max_bytes: int) -> str:
    """Return `reason` with its remedy, where one is known."""
    for pattern, remedy in _REMEDIES:
        if pattern.search(reason):
            fix = remedy.format(name=name, env=dsn_env + PASSWORD_SUFFIX, max_mb=max_bytes // _MB)
            return f"{reason.rstrip('. ')}: {fix}"
    return reason
