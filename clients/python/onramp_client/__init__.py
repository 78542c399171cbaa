"""Send events to an Onramp gateway without loss; it needs only the standard library.

from onramp_client import Onramp

with Onramp("http://gateway:8080", key="onramp_shop_…") as onramp:
    onramp.send("order_placed", {"amount": 12.5})
print(onramp.tally)
"""

from .aio import AsyncOnramp
from .client import Onramp, send_all
from .events import ACCEPTED, KEPT, REJECTED, UNKNOWN, Given, NewEvent, QueueFullError, Tally, Verdict
from .telling import Telling
from .version import VERSION

__all__ = [
    "ACCEPTED",
    "KEPT",
    "REJECTED",
    "UNKNOWN",
    "VERSION",
    "AsyncOnramp",
    "Given",
    "NewEvent",
    "Onramp",
    "QueueFullError",
    "Tally",
    "Telling",
    "Verdict",
    "send_all",
]
