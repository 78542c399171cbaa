"""Conditions of requests: the state that a change is of (If-Match), and that a reader has (If-None-Match)."""

import re
from typing import Annotated, Final

from fastapi import Depends, Header

from shared.errors import IF_MATCH_MISSING, REGISTRY_CHANGED, Fault, UserError

_TAG: Final = re.compile(r'(W/)?"([^"]*)"')
IfMatch = Annotated[
    list[str] | None, Header(alias="If-Match", description="The ETag of what was read; * for any state.")
]
IfNoneMatch = Annotated[list[str] | None, Header(alias="If-None-Match", description="An ETag that is known.")]


class State:
    """The state that a request is a change of, by its If-Match."""

    def __init__(self, if_match: IfMatch = None) -> None:
        self._given = ",".join(if_match or ()).strip()
        self._tags = [tag for weak, tag in _TAG.findall(self._given) if not weak]

    def require_given(self) -> None:
        """Raise `UserError` IF_MATCH_MISSING."""
        if not self._given:
            raise UserError(IF_MATCH_MISSING, "the request has no If-Match")

    def require(self, tag: str, fault: Fault = REGISTRY_CHANGED) -> None:
        """Raise `UserError` if a state is named that is not in force."""
        if self._given and self._given != "*" and tag not in self._tags:
            raise UserError(fault, f'what is in force is "{tag}", and If-Match names others')


class Known:
    """The state that a reader has already, by its If-None-Match; compared weakly (RFC 9110, 13.1.2)."""

    def __init__(self, if_none_match: IfNoneMatch = None) -> None:
        given = ",".join(if_none_match or ()).strip()
        self._is_any = given == "*"
        self._tags = {tag for _, tag in _TAG.findall(given)}

    def has(self, tag: str) -> bool:
        """Whether this is what its reader has."""
        return self._is_any or tag in self._tags


#: Of what may be changed without having read it.
StateIfGiven = Annotated[State, Depends(State)]
#: Of what is read again and again, and seldom changes.
KnownIfGiven = Annotated[Known, Depends(Known)]
