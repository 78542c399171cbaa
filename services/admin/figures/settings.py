"""Where the admin service reads figures: the URLs of gateways, writers, tracers and the lake."""

from pydantic import Field

from shared.service_urls import ServiceUrls, split_urls


class FiguresSettings(ServiceUrls):
    """Addresses of the other services, whose figures the web UI and the waiting report show."""

    gateway_urls: str = Field(
        "http://127.0.0.1:8080",
        description="URLs of the gateways whose `/figures` the admin service reads, separated by commas: "
        "those of the port for operators, if there is one. A host name with several addresses means all of "
        "them; it is resolved every 30 seconds. Empty: none is read.",
    )
    writer_urls: str = Field(
        "http://127.0.0.1:8081",
        description="The same for the writers, one of which lands events while the others are on standby. "
        "The waiting report reads their figures too.",
    )
    tracer_urls: str = Field(
        "",
        description="The same for the tracers, whose results the web UI shows: their port with `/status`. "
        "Empty: no tracer is read.",
    )

    lake_urls: str = Field(
        "",
        description="The same for the lake service and its compaction, whose tables the web UI shows: their "
        "ports with `/status`. Empty: none is read.",
    )

    def lake(self) -> tuple[str, ...]:
        """Return the URLs of the lake service and of compaction."""
        return split_urls(self.lake_urls)

    def tracers(self) -> tuple[str, ...]:
        """Return the URLs of the tracers."""
        return split_urls(self.tracer_urls)

    def all_urls(self) -> tuple[str, ...]:
        """Return all URLs, which are checked at the start."""
        return (*super().all_urls(), *self.tracers(), *self.lake())
