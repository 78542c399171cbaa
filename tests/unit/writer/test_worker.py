"""What a Spark worker's process pays for each task beside its work."""

import subprocess
import sys

_SETTLE = """
import gc
from services.writer.settle.work_order import WorkOrder
from services.writer.model.routes import Routes
from services.writer.settle.task import settle
list(settle(WorkOrder(1, {}, (), (), Routes("onramp"), ""), iter([])))
frozen = gc.get_freeze_count()
list(settle(WorkOrder(1, {}, (), (), Routes("onramp"), ""), iter([])))
print(frozen, len(gc.get_objects()), gc.get_freeze_count() - frozen)
"""


def test_the_collection_after_each_task_does_not_visit_what_was_imported() -> None:
    answer = subprocess.run([sys.executable, "-c", _SETTLE], capture_output=True, text=True, check=True)
    frozen, looked_at, later = map(int, answer.stdout.split())
    assert frozen > 10 * looked_at
    assert later <= 0, "once: what a task leaves behind is garbage"
