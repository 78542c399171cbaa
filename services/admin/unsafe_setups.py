"""Unsafe setups that prevent the start: all faults at once, each with its fix."""

from services.admin.api.local import is_loopback
from services.admin.settings import AdminSettings


class UnsafeSetupError(ValueError):
    """The admin service does not start with this setup."""


def require_safe(settings: AdminSettings) -> None:
    """Raise `UnsafeSetupError` with every fault of this setup."""
    if is_loopback(settings.host):
        return
    where, faults = settings.host or "every address", []
    if settings.dev_key.get_secret_value():
        faults.append(
            f"It would accept a development key on {where}, which cannot be revoked. Unset "
            "ONRAMP_ADMIN_DEV_KEY and use operators of the registry (`onramp keys new ann --operator admin`)."
        )
    if not settings.tls_cert_file and not settings.allow_cleartext_http:
        faults.append(
            f"HTTP would be in cleartext on {where}: keys and events could be read. Give it a certificate "
            "(ONRAMP_ADMIN_TLS_CERT_FILE), or listen on 127.0.0.1 behind a proxy that speaks TLS, or accept "
            "the risk with ONRAMP_ADMIN_ALLOW_CLEARTEXT_HTTP=true."
        )
    if faults:
        raise UnsafeSetupError("\n".join(f"- {each}" for each in faults))
