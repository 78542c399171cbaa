"""The templates: escaped always, and a name that is not there is an error."""

import re
from hashlib import sha256
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from services.admin.ui import charts, formats
from services.admin.ui.icons import icon
from services.admin.ui.static_files import StaticFiles

#: Replaced by the tag of the polled part.  A text of an event that contains it only gets the tag as well.
TAG_PLACE: Final = "onramp-tag-of-this-part"
#: Texts that change while the facts stay the same.
_FRESH: Final = re.compile(r"<(time|span)( [^>]*)? data-fresh[^>]*>[^<]*</\1>")


def environment(static: StaticFiles) -> Environment:
    """Return the environment of all templates."""
    env = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=formats.harmless,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    env.globals |= {
        "static": static.url,
        "icon": icon,
        "href": formats.href,
        "sparkline": charts.sparkline,
        "bar": charts.bar,
        "bar_part": charts.Part,
        "columns": charts.columns,
        "strip": charts.strip,
        "ago": formats.ago,
    }
    env.filters |= {
        "number": formats.number,
        "quantity": formats.quantity,
        "size": formats.size,
        "exact": formats.exact,
        "moment": formats.moment,
        "duration": formats.duration,
    }
    return env


def tagged(html: str) -> tuple[str, str]:
    """Return the page with the tag of what it shows, and the tag; relative times do not change the tag."""
    tag = sha256(_FRESH.sub("", html).encode()).hexdigest()[:20]
    return html.replace(TAG_PLACE, tag), tag


def rendered(env: Environment, name: str, context: dict[str, Any]) -> str:
    """Return a template as text."""
    return env.get_template(name).render(context)
