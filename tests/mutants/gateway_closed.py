"""What keeps the gateway closed: to foreign pages, and to setups that would open it unsaid."""

from functools import partial
from typing import Final

from tests.mutants.machine import Mutant

_KEYLESS = partial(Mutant, tests="tests/unit/ingest/test_keyless.py")
_SAFETY = partial(Mutant, tests="tests/unit/ingest/test_safety.py", file="safety.py")

CLOSED: Final = (
    _KEYLESS(
        "the host of the keyless", "auth/loopback.py", "if not self._any_host and not", "if False and not"
    ),
    _KEYLESS("the origin of the keyless", "auth/loopback.py", 'name == b"origin" and', "False and"),
    _KEYLESS("whole names", "auth/loopback.py", "_HOST.fullmatch(host)", "_HOST.match(host)"),
    _KEYLESS("the rule for keyless requests", "auth/api_keys.py", "self._keyless.check(headers)", "pass"),
    _KEYLESS(
        "the rule for keyless requests on other routes",
        "app.py",
        "self.api_keys.check_keyless(scope[",
        "(scope[",
    ),
    _KEYLESS("no keys beyond loopback", "app.py", "and is_loopback(settings.host)", ""),
    _KEYLESS("keys in production", "app.py", 'settings.profile == "dev" and', ""),
    Mutant(
        "pages for operators",
        "app.py",
        "reject_hidden(scope, self.settings)",
        "pass",
        tests="tests/integration/ingest/test_admin_port.py",
    ),
    _SAFETY("keys beyond loopback", old="or is_loopback(settings.host):", new="or True:"),
    _SAFETY("keys at production's start", old="if not registered:", new="if False:"),
    _SAFETY("pages for operators at home", old="if settings.admin_port and", new="if False and"),
    _SAFETY("no cleartext", old="if not is_loopback(settings.host) and", new="if False and"),
    _SAFETY("no open syslog", old="if _takes_syslog(settings) and", new="if False and"),
    _SAFETY("networks that are all", old="and all(each.prefixlen", new="and any(1 or each.prefixlen"),
    _SAFETY("a secured Kafka", old="if not kafka.secured:", new="if False:"),
    _SAFETY("production's replicas", old="kafka.min_insync < _PRODUCTION_REPLICAS", new="False"),
    _SAFETY("no development key", old="if settings.dev_key.get_secret_value():", new="if False:"),
    _SAFETY("all at once", old='"\\n".join(f"- {each}" for each in faults)', new="faults[0]"),
)
