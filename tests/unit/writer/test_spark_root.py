"""Spark's Python workers find this project by a path of their own, not by the folder they are started in."""

import subprocess
import sys
from pathlib import Path

from shared.spark import spark_jobs


def test_a_worker_that_is_started_elsewhere_imports_its_task(tmp_path: Path) -> None:
    program = "import services.writer.settle.task"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(spark_jobs.ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
