"""uvicorn's server, which SIGTERM ends at once while it starts: the start waits seconds for the registry."""

import os
import signal
from types import FrameType

import uvicorn


class Server(uvicorn.Server):
    """A server that accepts nothing before `started`."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the process while it starts; afterwards stop gracefully."""
        if sig == signal.SIGTERM and not self.started:
            os._exit(0)
        super().handle_exit(sig, frame)
