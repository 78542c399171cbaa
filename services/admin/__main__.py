"""`python -m services.admin`: SIGTERM ends the service from here on; `serve` is the service."""

from shared.early_exit import exit_at_sigterm


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    exit_at_sigterm()
    from services.admin.serve import serve  # noqa: PLC0415 - takes seconds on a busy machine

    serve()


if __name__ == "__main__":
    main()
