"""The cause that a parked event is counted under: its own, up to the limit of its name's groups.

Clients choose event names and fields freely.  So the total number of groups is limited, and also that of one
event name: a producer whose field names are ids uses up only its own limit.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Final

from services.ops.parked.fingerprint import OTHERS, Cause

#: Maximum groups of one event name; further causes are merged under that name.
MAX_OF_A_NAME: Final = 500


def others_of(name: str | None) -> Cause:
    """Return the merged cause of an event name, or of all names for None."""
    return OTHERS._replace(event_name=name)


def is_others(cause: Cause) -> bool:
    """Return whether a group merges many causes."""
    return cause == others_of(cause.event_name)


def counted_under(
    causes: Iterable[Cause],
    known: Container[bytes],
    of_names: Mapping[str | None, int],
    *,
    max_groups: int,
    max_groups_of_a_name: int,
) -> list[Cause]:
    """Return for each cause the one that it is counted under.

    `known`: the fingerprints of existing groups; `of_names`: their number by event name.
    """
    found = []
    room = max_groups - sum(of_names.values())
    added: set[bytes] = set()
    counts = Counter(of_names)
    for cause in causes:
        name = cause.event_name
        of_name = others_of(name)
        for each, bound in (
            (cause, max_groups_of_a_name),
            (of_name, max_groups_of_a_name + 1),
            (OTHERS, None),
        ):
            if each.fingerprint in known or each.fingerprint in added:
                break
            if bound is None or (counts[name] < bound and len(added) < room):
                added.add(each.fingerprint)
                counts[each.event_name] += 1
                break
        found.append(each)
    return found
