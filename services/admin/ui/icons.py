"""Icons as SVG paths of 24 by 24, drawn with the colour of the text."""

from functools import cache
from typing import Final

from markupsafe import Markup

_PATHS: Final = {
    "activity": "M3 12h4l3 8 4-16 3 8h4",
    "inbox": "M3 13h5l2 3h4l2-3h5M5 5h14l2 8v6H3v-6z",
    "clock": "M12 3a9 9 0 1 0 .01 0M12 7v5l3 2",
    "layers": "M12 3l9 5-9 5-9-5zM3 12l9 5 9-5M3 16l9 5 9-5",
    "list": "M8 6h13M8 12h13M8 18h13M3 6h1M3 12h1M3 18h1",
    "database": "M4 6c0-4 16-4 16 0s-16 4-16 0v12c0 4 16 4 16 0V6M4 12c0 4 16 4 16 0",
    "branch": "M6 3v12M6 15a3 3 0 1 0 .01 0M18 3a3 3 0 1 0 .01 0M18 9c0 5-6 6-10 7",
    "shuffle": "M3 7h4l10 10h4M3 17h4l3-3M14 10l3-3h4M18 4l3 3-3 3M18 14l3 3-3 3",
    "play": "M7 4l13 8-13 8z",
    "key": "M8 12a4 4 0 1 0 .01 0M11 13l9-9M16 8l3 3",
    "scale": "M12 3v18M7 21h10M5 6h14M5 6l-3 7h6zM19 6l-3 7h6z",
    "waves": "M3 8c3-3 6 3 9 0s6-3 9 0M3 15c3-3 6 3 9 0s6-3 9 0",
    "target": "M12 3a9 9 0 1 0 .01 0M12 8a4 4 0 1 0 .01 0M12 12h.01",
    "sum": "M6 4h12v3M6 4l7 8-7 8h12v-3",
    "book": "M5 4h14v16H7a2 2 0 0 1-2-2zM5 18a2 2 0 0 1 2-2h12",
    "help": "M12 3a9 9 0 1 0 .01 0M9.5 9.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7M12 16.5v.5",
    "search": "M11 4a7 7 0 1 0 .01 0M16 16l5 5",
    "moon": "M20 14A8 8 0 1 1 10 4a7 7 0 0 0 10 10z",
    "menu": "M4 6h16M4 12h16M4 18h16",
    "check": "M12 3a9 9 0 1 0 .01 0M8 12l3 3 5-6",
    "alert": "M12 3a9 9 0 1 0 .01 0M12 7v6M12 16v1",
    "pause": "M12 3a9 9 0 1 0 .01 0M10 9v6M14 9v6",
    "circle": "M12 5a7 7 0 1 0 .01 0",
    "run": "M12 3a9 9 0 1 0 9 9M12 7v5l3 2",
    "cross": "M12 3a9 9 0 1 0 .01 0M9 9l6 6M15 9l-6 6",
    "terminal": "M4 6l6 6-6 6M12 18h8",
    "eye": "M2 12c4-8 16-8 20 0-4 8-16 8-20 0zM12 9a3 3 0 1 0 .01 0",
    "lock": "M5 11h14v10H5zM8 11V7a4 4 0 0 1 8 0v4",
    "flask": "M9 3h6M10 3v6L4 20h16L14 9V3M7 15h10",
    "person": "M12 4a4 4 0 1 0 .01 0M4 21c0-8 16-8 16 0",
    "chevron": "M9 5l7 7-7 7",
    "out": "M10 4H4v16h6M9 12h11M16 8l4 4-4 4",
}


@cache
def icon(name: str) -> Markup:
    """Return an icon, hidden from screen readers: a word is next to it."""
    return Markup('<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="{}"/></svg>').format(
        _PATHS[name]
    )
