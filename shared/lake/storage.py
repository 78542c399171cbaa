"""The storage of the lake's tables: addresses of tables, and the options that delta-rs needs."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

#: Lines of a file of credentials, and the options of delta-rs.
_CREDENTIALS: Final = {
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A folder of this machine, or a prefix of a bucket, with its credentials."""

    url: str
    endpoint: str = ""
    region: str = "us-east-1"
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    credentials_file: Path | None = None
    request_seconds: int = 30
    retry_seconds: int = 30

    @property
    def is_local(self) -> bool:
        """Return whether the tables are in a folder of this machine."""
        return "://" not in self.url

    def is_empty_folder(self) -> bool:
        """Return whether the storage is a local folder without tables; False if it cannot be listed."""
        if not self.is_local:
            return False
        try:
            with os.scandir(self.url) as entries:
                return next(entries, None) is None
        except OSError:
            return False

    def table_url(self, table: str) -> str:
        """Return the address of a table's folder."""
        return f"{self.url.rstrip('/')}/{table}"

    def options(self) -> dict[str, str]:
        """Return delta-rs' storage options; none for a local folder.  Raise `OSError` for a missing file."""
        if self.is_local:
            return {}
        options = {
            "AWS_REGION": self.region,
            "timeout": f"{self.request_seconds}s",
            "connect_timeout": f"{min(self.request_seconds, 5)}s",
            "retry_timeout": f"{self.retry_seconds}s",
            # A commit is a PUT with If-None-Match: two commits of one version cannot both succeed.
            "conditional_put": "etag",
        }
        if self.endpoint:
            options["AWS_ENDPOINT_URL"] = self.endpoint
            options["AWS_ALLOW_HTTP"] = str(self.endpoint.startswith("http://")).lower()
        return options | self._credentials()

    def _credentials(self) -> dict[str, str]:
        if self.credentials_file is None:
            values = {"access_key_id": self.access_key_id, "secret_access_key": self.secret_access_key}
        else:
            lines = self.credentials_file.read_text("utf-8").splitlines()
            pairs = (line.partition("=") for line in lines if "=" in line)
            values = {name.strip(): value.strip() for name, _, value in pairs}
        return {option: values[name] for name, option in _CREDENTIALS.items() if values.get(name)}


def reason_of(error: BaseException) -> str:
    """Return the first line of an error of the storage: delta-rs appends a backtrace."""
    return (str(error).splitlines() or [type(error).__name__])[0][:500]
