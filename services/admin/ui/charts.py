"""Charts as SVG that the server makes: sizes are attributes, so that no inline style is needed."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from services.admin.ui.formats import harmless

#: Chart colours by name; each is a class of the stylesheet.
COLOURS: Final = ("in", "land", "wait", "err", "flight", "there", "off", "ground")
_HEIGHT: Final = 28


class Part(NamedTuple):
    """A part of a bar: its name, its number, and its colour."""

    name: str
    number: int
    colour: str


def sparkline(values: Sequence[float | None], colour: str, title: str, *, width: int = 160) -> Markup:
    """Return a line without axes over equally spaced values, with gaps where a value is unknown (None).

    Without values the baseline stays.
    """
    top = max((value for value in values if value is not None), default=0.0)
    base = _HEIGHT - 1
    step = width / max(len(values) - 1, 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for i, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((round(i * step, 1), round(base - value / top * (base - 3), 1) if top else base))
    drawn = [_run(run, step) for run in runs if run] or [_run([(0, base), (width, base)], step)]
    return Markup(  # noqa: S704 - numbers, and texts that are escaped
        f'<svg class="spark c-{_colour(colour)}" viewBox="0 0 {width} {_HEIGHT}" preserveAspectRatio="none" '
        f'role="img"><title>{escape(harmless(title))}</title>{"".join(drawn)}</svg>'
    )


def _run(points: list[tuple[float, float]], step: float) -> str:
    """Return the line and the area of values without a gap; a single value is a short line."""
    if len(points) == 1:
        x, y = points[0]
        points = [(max(round(x - step, 1), 0), y), (x, y)]
    line = " ".join([f"{x},{y}" for x, y in points])
    area = f"{points[0][0]},{_HEIGHT} {line} {points[-1][0]},{_HEIGHT}"
    return f'<polygon points="{area}"/><polyline points="{line}" vector-effect="non-scaling-stroke"/>'


def bar(parts: Sequence[Part], title: str, *, width: int = 1000) -> Markup:
    """Return one bar whose parts have widths in proportion; a part above zero is always visible."""
    total = sum(part.number for part in parts)
    least, x, drawn = 4.0, 0.0, []
    shown = [part for part in parts if part.number > 0]
    spare = width - least * len(shown)
    for part in shown:
        size = least + spare * part.number / total
        drawn.append(
            Markup(
                '<rect class="c-{}" x="{}" y="0" width="{}" height="10"><title>{} {}</title></rect>'
            ).format(
                _colour(part.colour), round(x, 1), round(max(size - 1.5, 1), 1), part.name, f"{part.number:,}"
            )
        )
        x += size
    return Markup(
        '<svg class="bar" viewBox="0 0 {} 10" preserveAspectRatio="none" role="img"><title>{}</title>'
        '<rect class="ground" x="0" y="0" width="{}" height="10"/>{}</svg>'
    ).format(width, title, width, Markup("").join(drawn))


def columns(values: Sequence[int], colour: str, title: str, *, width: int = 240, height: int = 40) -> Markup:
    """Return a column per value above zero on a baseline, such as events by hour."""
    top = max(values, default=0)
    step = width / max(len(values), 1)
    broad = round(max(step - 1, 1), 1)
    drawn = [
        f'<rect x="{round(i * step, 1)}" y="{round(height - size, 1)}" '
        f'width="{broad}" height="{round(size, 1)}"/>'
        for i, value in enumerate(values)
        if value
        for size in [max(value / top * height, 2.0)]
    ]
    return Markup(  # noqa: S704 - numbers, and texts that are escaped
        f'<svg class="columns c-{_colour(colour)}" viewBox="0 0 {width} {height}" preserveAspectRatio="none" '
        f'role="img"><title>{escape(title)}</title><rect x="0" y="{height - 1}" width="{width}" height="1"/>'
        f"{''.join(drawn)}</svg>"
    )


def strip(colours: Sequence[str], title: str, *, width: int = 240, height: int = 10) -> Markup:
    """Return a cell of equal width per colour, such as the worst result of each hour."""
    step = width / max(len(colours), 1)
    drawn = [
        Markup('<rect class="c-{}" x="{}" y="0" width="{}" height="{}"/>').format(
            _colour(colour), round(i * step, 1), round(step - 1, 1), height
        )
        for i, colour in enumerate(colours)
    ]
    return Markup(
        '<svg class="bar strip" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img">'
        "<title>{}</title>{}</svg>"
    ).format(width, height, harmless(title), Markup("").join(drawn))


def _colour(name: str) -> Markup:
    if name not in COLOURS:
        raise ValueError(f"{name} is no colour of a chart")
    return escape(name)
