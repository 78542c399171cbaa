"""Send events to an Onramp gateway without loss; it needs only the standard library.

from onramp_client import Onramp

with Onramp("http://gateway:8080", key="onramp_shop_…") as onramp:
    onramp.send("order_placed", {"amount": 12.5})
print(onramp.tally)
"""

from .aio import AsyncOnramp
from .callbacks import Callbacks
from .client import Onramp, send_all
from .events import ACCEPTED, REJECTED, SPOOLED, UNKNOWN, Given, NewEvent, QueueFullError, Tally, Verdict
from .version import VERSION

__all__ = [
    "ACCEPTED",
    "REJECTED",
    "SPOOLED",
    "UNKNOWN",
    "VERSION",
    "AsyncOnramp",
    "Callbacks",
    "Given",
    "NewEvent",
    "Onramp",
    "QueueFullError",
    "Tally",
    "Verdict",
    "send_all",
]
