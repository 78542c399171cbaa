"""The files of a new transform: they pass their own test, and have no value of the real event."""

from pathlib import Path

import orjson
import pytest

from services.transform.author.example_tests import AuthorFileError, load_project, run_examples
from services.transform.author.new_transform import example_event, write_files

EVENT = orjson.dumps(
    {
        "metadata": {"id": "secret-id", "timestamp": "2026-05-05T10:00:00Z", "version": "2"},
        "event_name": "flight_departed",
        "payload": {
            "carrier": "UA",
            "tail": "N14228",
            "dep_delay": 45.5,
            "flights": [1545, -3],
            "tiny": 1e-30,
            "canceled": False,
            "gate": None,
        },
    }
)


def test_an_example_has_the_types_of_the_event_and_not_its_values() -> None:
    assert example_event(EVENT, ["/tail"]) == {
        "metadata": {"id": "test", "timestamp": "2026-01-01T00:00:00Z", "version": "1"},
        "event_name": "flight_departed",
        "payload": {
            "carrier": "AA",
            "tail": "***",
            "dep_delay": 99.9,
            "flights": [9999, -9],
            "tiny": 0,
            "canceled": False,
            "gate": None,
        },
    }


def test_the_files_pass_and_are_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "transforms"
    write_files(folder, "delays", "flight_departed", EVENT, ["/tail"])
    (result,) = run_examples(load_project(folder, "delays", None))
    assert (result.name, result.problems) == ("a flight_departed is dropped", [])
    assert b"secret-id" not in (folder / "delays.tests.yaml").read_bytes()
    with pytest.raises(AuthorFileError, match="exists"):
        write_files(folder, "delays", "flight_departed", EVENT, [])
