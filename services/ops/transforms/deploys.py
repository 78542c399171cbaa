"""Deploys of a transform: each is one change of the registry, whose log has all versions."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from shared.registry.change_log import Chain, ChangeSet, Ruling
from shared.registry.entries import Snapshot
from shared.registry.log import RegistryLog
from shared.registry.transforms import Transform, digest_of_source


class Version(NamedTuple):
    """A version of a transform's function that was in force from a change of the registry on."""

    #: Offset of the change in the registry's log.
    offset: int
    time: datetime
    actor: str
    reason: str
    digest: str
    source: str

    def as_dict(self) -> dict[str, Any]:
        """Return it for display, without the source."""
        shown = self._asdict()
        del shown["source"]
        return {**shown, "time": self.time.isoformat()}


class DeployError(ValueError):
    """The transform cannot be deployed or rolled back; the text says why."""


def with_source(before: Snapshot, name: str, source: str) -> Snapshot:
    """Return the transforms of the registry with the source of one.  Raise `DeployError`, `ValueError`."""
    transform = required(before, name)
    entry = {
        **transform.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "source": source,
        "digest": digest_of_source(source),
    }
    return Snapshot(transforms={**before.transforms, name: Transform.model_validate(entry)})


def required(snapshot: Snapshot, name: str) -> Transform:
    """Return a transform of the registry.  Raise `DeployError` if there is none."""
    if name not in snapshot.transforms:
        raise DeployError(f"the registry has no transform {name}: add it to onramp.yaml and apply that")
    return snapshot.transforms[name]


def versions_in(changes: Iterable[tuple[int, ChangeSet]], name: str) -> list[Version]:
    """Return the versions of a transform in the order of their deploys.

    `changes`: the change sets that counted.  A change that keeps the source is no version.
    """
    versions: list[Version] = []
    for offset, change in changes:
        transform = change.put.transforms.get(name)
        if transform is None or transform.source is None or transform.digest is None:
            continue
        if versions and versions[-1].digest == transform.digest:
            continue
        versions.append(
            Version(offset, change.time, change.actor, change.reason, transform.digest, transform.source)
        )
    return versions


def counted_changes(log: RegistryLog) -> Iterable[tuple[int, ChangeSet]]:
    """Yield the change sets of a log that counted.  Raise `InfrastructureError`."""
    chain, span = Chain(), log.span()
    for record in log.read(span.first, span.end):
        verdict = chain.take(record.offset, record.value)
        if verdict.ruling is Ruling.COUNTED and verdict.change is not None:
            yield record.offset, verdict.change


def version_before(versions: list[Version], deployed: str | None, to: str | None) -> Version:
    """Return the version to roll back to: the newest with another digest than `deployed`, or the given one.

    `to`: the beginning of a digest.  Raise `DeployError`.
    """
    if to is not None:
        found = {each.digest: each for each in versions if each.digest.startswith(to)}
        if len(found) != 1:
            count = "no version begins" if not found else f"{len(found)} versions begin"
            raise DeployError(f"{count} with {to}: `onramp transforms list NAME` prints them")
        return next(iter(found.values()))
    for version in reversed(versions):
        if version.digest != deployed:
            return version
    raise DeployError("there is no earlier version: `onramp transforms list NAME` prints the versions")
