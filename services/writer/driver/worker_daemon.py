"""The daemon that forks the writer's Python workers, with the modules of its task imported."""

from shared.spark import worker_daemon  # first: it keeps NumPy from starting threads

# isort: split
import services.writer.settle.task  # noqa: F401 - and all that it imports


def run() -> None:
    """Fork workers until Spark closes standard input."""
    worker_daemon.run("writer")


if __name__ == "__main__":
    run()
