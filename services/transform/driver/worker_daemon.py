"""The daemon that forks the transforms' Python workers, with the modules of a lane run imported."""

from shared.spark import worker_daemon  # first: it keeps NumPy from starting threads

# isort: split
import services.transform.lane.spark_task  # noqa: F401 - and all that it imports


def run() -> None:
    """Fork workers until Spark closes standard input."""
    worker_daemon.run("transform")


if __name__ == "__main__":
    run()
