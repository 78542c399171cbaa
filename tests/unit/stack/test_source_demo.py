"""The demo's source is named as everybody else names it."""

from services.cdc.agent.names import publication
from shared.registry.sources import Source
from stack import source_demo


def test_its_publication_is_the_one_that_the_agent_reads() -> None:
    assert publication(source_demo.NAME) == source_demo.PUBLICATION


def test_its_entry_is_one_of_the_registry() -> None:
    assert Source.model_validate(source_demo.ENTRY).publish == source_demo.NAME
