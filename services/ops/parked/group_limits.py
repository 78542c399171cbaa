"""Under which cause a parked event is counted: its own, while its name may have more groups.

Event names, and fields within one event, are anybody's to make up.  So the groups of all are bounded, and
those of one event name too: a producer whose field names are ids uses up its own and nobody else's.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Final

from services.ops.parked.fingerprint import OTHERS, Cause

#: Of one event name; beyond them its causes are counted together under that name.
MAX_OF_A_NAME: Final = 500


def others_of(name: str | None) -> Cause:
    """Return what is counted together of an event name; of none it is what is counted together of all."""
    return OTHERS._replace(event_name=name)


def is_others(cause: Cause) -> bool:
    """Whether a group is of many causes."""
    return cause == others_of(cause.event_name)


def counted_under(
    causes: Iterable[Cause],
    known: Container[bytes],
    of_names: Mapping[str | None, int],
    *,
    most: int,
    most_of_a_name: int,
) -> list[Cause]:
    """Return for each cause the one that it is counted under.

    `known`: the fingerprints of the groups that there are; `of_names`: how many there are of each event name.
    """
    found = []
    room = most - sum(of_names.values())
    added: set[bytes] = set()
    counts = Counter(of_names)
    for cause in causes:
        name = cause.event_name
        of_name = others_of(name)
        for each, bound in ((cause, most_of_a_name), (of_name, most_of_a_name + 1), (OTHERS, None)):
            if each.fingerprint in known or each.fingerprint in added:
                break
            if bound is None or (counts[name] < bound and len(added) < room):
                added.add(each.fingerprint)
                counts[each.event_name] += 1
                break
        found.append(each)
    return found
