"""Which settings of Onramp's own topics are wrong."""

from services.writer.own_topics import differences

WANTED = {"retention.ms": "-1", "min.insync.replicas": "2", "max.message.bytes": "100"}


def test_what_is_as_wanted_or_more_is_right() -> None:
    assert list(differences(WANTED, WANTED)) == []
    more = WANTED | {"min.insync.replicas": "3", "max.message.bytes": "200", "segment.ms": "1"}
    assert list(differences(WANTED, more)) == []


def test_less_other_and_missing_are_wrong() -> None:
    found = {"retention.ms": "60000", "min.insync.replicas": "1"}
    assert list(differences(WANTED, found)) == [
        ("retention.ms", "60000", "-1"),
        ("min.insync.replicas", "1", "2"),
        ("max.message.bytes", None, "100"),
    ]
