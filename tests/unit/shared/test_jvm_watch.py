"""The watch of Spark's JVM calls its driver once, and never for a JVM that is stopped on purpose."""

import threading

from shared.spark.jvm_watch import JvmWatch

_OFTEN = 0.001


def test_the_end_of_the_jvm_is_reported_once() -> None:
    answers = iter([True, True, False])
    ended = threading.Event()
    watch = JvmWatch(lambda: next(answers), ended.set, _OFTEN)
    watch.start()
    assert ended.wait(60)
    watch._thread.join(60)  # it asks no further, or `next` would raise
    assert not watch._thread.is_alive()


def test_a_jvm_that_is_stopped_on_purpose_is_not_reported() -> None:
    asked, stopped, ends = threading.Event(), threading.Event(), []

    def is_alive() -> bool:
        asked.set()
        assert stopped.wait(60)
        return False

    watch = JvmWatch(is_alive, lambda: ends.append("end"), _OFTEN)
    watch.start()
    assert asked.wait(60)
    watch.stop()
    stopped.set()
    watch._thread.join(60)
    assert ends == []
