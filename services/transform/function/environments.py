"""The environments of the transform service's settings, for the programs of authors beside it."""

from pydantic_settings import BaseSettings, SettingsConfigDict


class FunctionEnvironments(BaseSettings):
    """Paths of Python executables by the environments' names; other settings of the service are ignored."""

    model_config = SettingsConfigDict(
        env_prefix="ONRAMP_TRANSFORM_", frozen=True, hide_input_in_errors=True, extra="ignore"
    )

    environments: dict[str, str] = {}
