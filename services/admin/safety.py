"""Setups with which the admin service does not start: all faults at once, each with its fix."""

from services.admin.api.local import is_loopback
from services.admin.settings import AdminSettings
from shared.registry import Registry


class UnsafeSetupError(ValueError):
    """The admin service does not start with this setup."""


def require_safe(settings: AdminSettings, registry: Registry) -> None:
    """Raise `UnsafeSetupError` with every fault of this setup."""
    if is_loopback(settings.host):
        return
    where, faults = settings.host or "every address", []
    if registry.is_read and not registry.snapshot().operators:  # unread, nobody is let in without one
        faults.append(
            f"It would listen on {where} and knows no operator: everybody could read parked events. "
            "Make a key with `onramp keys new ann --operator admin` and bring its hash into the registry "
            "(docs/registry.md), or listen on 127.0.0.1 (ONRAMP_ADMIN_HOST)."
        )
    if not settings.tls_cert_file and not settings.allow_cleartext_http:
        faults.append(
            f"HTTP would be in cleartext on {where}: keys and events are read. Give it a certificate "
            "(ONRAMP_ADMIN_TLS_CERT_FILE), or listen on 127.0.0.1 behind a proxy that speaks TLS, or accept "
            "the risk with ONRAMP_ADMIN_ALLOW_CLEARTEXT_HTTP=true."
        )
    if faults:
        raise UnsafeSetupError("\n".join(f"- {each}" for each in faults))
