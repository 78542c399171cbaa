"""Where the admin service reads figures: the URLs of the gateways and of the writers."""

from pydantic import Field

from shared.service_urls import ServiceUrls


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
