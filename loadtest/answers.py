"""HTTP answers off a keep-alive connection with one request at a time, as cheaply as Python allows."""


def complete(received: bytes) -> tuple[bytes, bytes] | None:
    """Head and body of the answer, or None: part of it is still to come.  It must have a length."""
    head, found, body = received.partition(b"\r\n\r\n")
    if not found:
        return None
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
    return (head, body) if len(body) >= length else None
