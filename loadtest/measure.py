"""The figures of a run: rates, latencies, costs, and their course over time."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loadtest.client_claims import Claims, Floats, Ints
from loadtest.shapes import Shape
from loadtest.watch import Watch

WARM_FROM: Final = 0.2
_MINUTE: Final = 60.0
#: A shell that started something is no part of the cost.
_MIN_CPU_SECONDS: Final = 0.005
_PERCENTILES: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0}


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a run, read in pieces: the time at which each was due, accepted and visible."""

    intended: Floats
    accepted: Floats
    visible: Floats

    @property
    def latency(self) -> Floats:
        """Seconds from the intended start of a packet's request to its row."""
        return self.visible - self.intended


class Visibility:
    """The times at which rows became visible to another connection, by the watched ledger."""

    def __init__(self, watch: Watch) -> None:
        """Store the readings."""
        self._lines = {
            partition: (np.array([moment for moment, _ in line]), np.array([offset for _, offset in line]))
            for partition, line in watch.progress.items()
        }

    def of(self, partitions: Ints, offsets: Ints) -> Floats:
        """Return the time at which each record was first read as settled; NaN if it never was."""
        out = np.full(len(offsets), np.nan)
        for partition, (times, settled) in self._lines.items():
            mine = np.flatnonzero(partitions == partition)
            index = np.searchsorted(settled, offsets[mine], side="right")
            known = index < len(times)
            out[mine[known]] = times[index[known]]
        return out


def spread(seconds: Floats) -> dict[str, float] | None:
    """Return percentiles and the maximum, in milliseconds; None of nothing."""
    if not len(seconds):
        return None
    out = {name: float(np.percentile(seconds, p)) for name, p in _PERCENTILES.items()}
    return {name: round(1000 * value, 1) for name, value in {**out, "max": float(seconds.max())}.items()}


def rates(shape: Shape, claims: Claims, rows: Rows | None) -> dict[str, Any]:
    """Return the offered, accepted and landed packets, and rates per minute, each over its own period."""
    r = claims.requests
    began = float(r.intended.min())
    sent, ok = int(r.count.sum()), int(r.count[r.ok].sum())
    out: dict[str, Any] = {
        "offered_packets": sum(1 for _ in shape.starts()) * shape.batch,
        "offered_per_minute": round(_MINUTE * _planned(shape)),
        "sent_packets": sent,
        "accepted_packets": ok,
        "accepted_per_minute": _per_minute(ok, float(r.ended.max()) - began),
        "bytes_of_data": shape.size,
        "bytes_on_the_wire": round(float(r.wire.sum()) / max(sent, 1), 1),
    }
    if rows is not None and len(rows.visible):
        last = float(np.nanmax(rows.visible))
        out["landed_packets"] = len(rows.visible)
        out["end_to_end_per_minute"] = _per_minute(len(rows.visible), last - began)
        out["seconds_to_the_last_row"] = round(last - began, 2)
        out["seconds_behind_at_the_end"] = round(last - float(r.intended.max()), 2)
    return out


def _planned(shape: Shape) -> float:
    return sum(step.seconds * step.rate for step in shape.steps) / shape.seconds


def _per_minute(packets: int, seconds: float) -> int:
    return round(_MINUTE * packets / seconds) if seconds > 0 else 0


def latencies(shape: Shape, claims: Claims, rows: Rows | None) -> dict[str, Any]:
    """Return milliseconds from the intended start; `late` is the generator's own delay within them.

    `warm` leaves out what was due in the first fifth: a new topic and a new table cost once.
    """
    r = claims.requests
    warm = float(r.intended.min()) + WARM_FROM * shape.seconds
    return {
        **_latencies(claims, rows, 0.0),
        "late_ms": spread(r.began - r.intended),
        "warm": _latencies(claims, rows, warm),
    }


def _latencies(claims: Claims, rows: Rows | None, since: float) -> dict[str, Any]:
    r = claims.requests
    answered = r.ok & (r.intended >= since)
    out = {"request_ms": spread((r.ended - r.intended)[answered]), "request_to_row_ms": None}
    if rows is not None:
        out["request_to_row_ms"] = spread(rows.latency[~np.isnan(rows.visible) & (rows.intended >= since)])
    return out


def costs(watch: Watch, packets: int) -> dict[str, dict[str, float]]:
    """Return by process: CPU seconds, average cores, CPU per packet, and the maximum PSS."""
    samples = [s for s in watch.samples if s["cpu"]]
    if len(samples) < 2:  # noqa: PLR2004 - a difference needs two
        return {}
    spent: dict[str, float] = {}
    for before, after in pairwise(samples):
        for name, seconds in after["cpu"].items():
            # A process that started in between has used all that it reports.
            grown = seconds - before["cpu"].get(name, 0.0)
            spent[name] = spent.get(name, 0.0) + max(grown, 0.0)
    span = samples[-1]["at"] - samples[0]["at"]
    memory: dict[str, float] = {}
    for sample in samples:
        for name, mib in sample.get("pss", {}).items():
            memory[name] = max(memory.get(name, 0.0), mib)
    return {
        name: {
            "cpu_s": round(seconds, 2),
            "cores": round(seconds / span, 3),
            "us_per_packet": round(1e6 * seconds / max(packets, 1), 2),
            **({"pss_mib": memory[name]} if name in memory else {}),
        }
        for name, seconds in sorted(spent.items(), key=lambda item: -item[1])
        if seconds >= _MIN_CPU_SECONDS
    }


def others(watch: Watch) -> float | None:
    """Return the cores that other processes used on average: a quiet machine shows about 0."""
    if len(watch.samples) < 2:  # noqa: PLR2004 - a difference needs two
        return None
    first, last = watch.samples[0], watch.samples[-1]
    span = last["at"] - first["at"]
    ours = sum(cost["cores"] for cost in costs(watch, 1).values())
    return round(max(0.0, (last["machine"] - first["machine"]) / span - ours), 2)


def over_time(claims: Claims, rows: Rows | None, watch: Watch) -> dict[str, Any]:
    """Return lists with an entry per second from the first intended start; null without a value."""
    r = claims.requests
    began = float(r.intended.min())
    end = max(
        [float(r.ended.max())] + ([float(np.nanmax(rows.visible))] if rows and len(rows.visible) else [])
    )
    seconds = int(end - began) + 1
    out: dict[str, Any] = {
        "offered": _counted(r.intended - began, r.count, seconds),
        "accepted": _counted((r.ended - began)[r.ok], r.count[r.ok], seconds),
        "request_ms": _by_second((r.intended - began)[r.ok], (r.ended - r.intended)[r.ok], seconds),
    }
    if rows is not None:
        known = ~np.isnan(rows.visible)
        out["landed"] = _counted((rows.visible - began)[known], None, seconds)
        out["row_ms"] = _by_second((rows.intended - began)[known], rows.latency[known], seconds)
    out["lag"] = _sampled(watch, began, seconds, lambda sample: sample.get("lag"))
    out["cores"] = _cores(watch, began, seconds)
    return out


def _counted(moments: Floats, weights: Ints | None, seconds: int) -> list[int]:
    seconds_since = np.clip(moments.astype(np.int64), 0, seconds - 1)
    return [int(n) for n in np.bincount(seconds_since, weights, seconds)]


def _by_second(moments: Floats, latency: Floats, seconds: int) -> dict[str, list[float | None]]:
    in_second = np.clip(moments.astype(np.int64), 0, seconds - 1)
    order = np.argsort(in_second, kind="stable")
    sorted_seconds, sorted_latency = in_second[order], latency[order]
    cuts = np.searchsorted(sorted_seconds, np.arange(seconds + 1))
    groups = [sorted_latency[a:b] for a, b in pairwise(cuts)]

    def line(percent: float) -> list[float | None]:
        return [round(1000 * float(np.percentile(g, percent)), 1) if len(g) else None for g in groups]

    return {name: line(percent) for name, percent in _PERCENTILES.items()}


def _sampled(watch: Watch, began: float, seconds: int, pick: Any) -> list[Any]:
    out: list[Any] = [None] * seconds
    for sample in watch.samples:
        second = int(sample["at"] - began)
        if 0 <= second < seconds:
            out[second] = pick(sample)
    return out


def _cores(watch: Watch, began: float, seconds: int) -> dict[str, list[float | None]]:
    names = sorted({name for sample in watch.samples for name in sample["cpu"]})
    used: dict[str, list[float | None]] = {name: [None] * seconds for name in names}
    for before, after in pairwise(watch.samples):
        second = int(after["at"] - began)
        if 0 <= second < seconds:
            for name in names:
                used[name][second] = _share(before, after, name)
    return used


def _share(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> float:
    grown = after["cpu"].get(name, 0.0) - before["cpu"].get(name, 0.0)
    return round(max(0.0, grown / (after["at"] - before["at"])), 2)


def steps(shape: Shape, claims: Claims, rows: Rows | None) -> list[dict[str, Any]]:
    """Return the steps of a rising load, with offered and resulting rates."""
    r = claims.requests
    began = float(r.intended.min())
    out, start = [], 0.0
    for step in shape.steps:
        here = _between(r.intended - began, start, start + step.seconds)
        if not here.any():
            break
        line: dict[str, Any] = {
            "offered_per_minute": round(_MINUTE * step.rate),
            "accepted_per_minute": _per_minute(int(r.count[here & r.ok].sum()), step.seconds),
            "request_ms": spread((r.ended - r.intended)[here & r.ok]),
        }
        if rows is not None:
            mine = _between(rows.intended - began, start, start + step.seconds)
            line["request_to_row_ms"] = spread(rows.latency[mine & ~np.isnan(rows.visible)])
            landed = _between(rows.visible - began, start, start + step.seconds)
            line["landed_per_minute"] = _per_minute(int(landed.sum()), step.seconds)
        out.append(line)
        start += step.seconds
    return out


def _between(moments: Floats, start: float, end: float) -> NDArray[np.bool_]:
    return (moments >= start) & (moments < end)
