"""What Spark's Python workers are forked from: PySpark's daemon, with all that a task needs imported.

A worker imports what its first task names, a second or two for each; here it is done once, before the
forks, while the JVM still starts.  What is imported is shared by the workers' memory, and the collector
that PySpark runs after each task (40 ms over all modules, which never become garbage) does not see it.
"""

import gc
import os

# A thread would be lost in the forks: NumPy's algebra, which nobody here uses, has some.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pyspark.daemon import manager

import services.writer.settle.task  # noqa: F401 - and all that it imports

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
