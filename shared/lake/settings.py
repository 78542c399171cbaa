"""The storage of the lake's tables.  Only settings name it: events and registry entries cannot."""

from pathlib import Path
from typing import Final, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.lake.storage import Storage

#: Error of a lake service that starts without a storage.
URL_MISSING: Final = "a setting is missing: ONRAMP_LAKE_URL, the folder of the tables (docs/lake.md)"


class LakeStorageSettings(BaseSettings):
    """Environment variables `ONRAMP_LAKE_…` of the storage, for the lake service and for operators."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_LAKE_", frozen=True, hide_input_in_errors=True)

    url: str = Field(
        "",
        description="Folder of the lake's tables: a path of this machine, or s3://bucket/prefix. Empty: "
        "there is no lake.",
    )
    endpoint: str = Field(
        "", description="URL of an S3 service other than AWS. A URL that begins with http:// is allowed."
    )
    region: str = Field("us-east-1", description="Region of the bucket.")
    access_key_id: str = Field(
        "", description="Access key of S3; without one the standard sources of AWS apply."
    )
    secret_access_key: SecretStr = Field(SecretStr(""), description="Secret of the access key.")
    credentials_file: Path | None = Field(
        None,
        description="File with the lines access_key_id=…, secret_access_key=… and perhaps session_token=…; "
        "reloaded for each batch, so that short-lived credentials can be replaced.",
    )
    request_seconds: int = Field(
        30, ge=1, le=600, description="Maximum seconds of one request to the object store."
    )
    retry_seconds: int = Field(
        30,
        ge=1,
        le=600,
        description="Maximum seconds in which a request to the object store is repeated; then the batch "
        "fails, and a later one repeats it.",
    )

    @model_validator(mode="after")
    def _has_one_source_of_credentials(self) -> Self:
        if self.credentials_file and self.access_key_id:
            raise ValueError("set credentials_file or access_key_id, not both")
        if bool(self.access_key_id) != bool(self.secret_access_key.get_secret_value()):
            raise ValueError("access_key_id and secret_access_key go together")
        return self

    @property
    def storage(self) -> Storage:
        """Return the storage, for processes of other machines."""
        return Storage(
            url=self.url if "://" in self.url or not self.url else str(Path(self.url).absolute()),
            endpoint=self.endpoint,
            region=self.region,
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key.get_secret_value(),
            credentials_file=self.credentials_file and self.credentials_file.absolute(),
            request_seconds=self.request_seconds,
            retry_seconds=self.retry_seconds,
        )
