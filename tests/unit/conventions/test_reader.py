"""The test reader that replaces Spark in driver tests has every public member of `Spark`."""

from inspect import getmembers

from services.writer.driver.spark import Spark
from tests.fixtures.inline import Reader


def test_the_reader_of_the_tests_has_every_door_of_sparks() -> None:
    doors = {name for name, _ in getmembers(Spark) if not name.startswith("_")}
    assert doors - set(dir(Reader)) == set()
