"""`python -m services.ingest`: SIGTERM ends the gateway from here on; `serve` is the service."""

from shared.early_exit import exit_at_sigterm


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    exit_at_sigterm()
    from services.ingest.serve import serve  # noqa: PLC0415 - takes seconds on a busy machine

    serve()


if __name__ == "__main__":
    main()
