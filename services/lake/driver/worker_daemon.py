"""The daemon that forks the lake's Python workers, with the modules of a task imported."""

from shared.spark import worker_daemon  # first: it keeps NumPy from starting threads

# isort: split
import services.lake.task.land  # noqa: F401 - and all that it imports


def run() -> None:
    """Fork workers until Spark closes standard input."""
    worker_daemon.run("lake")


if __name__ == "__main__":
    run()
