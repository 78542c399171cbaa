"""Takes the pictures of docs/pictures from planted data: `make screenshots`.

With `--all FOLDER` it writes each page in both themes and on a phone as well, to compare them by eye.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser

from stack.browser import ensure_browser
from stack.postgres import Postgres
from tests.browser.planted_figures import KNOWN, plant_figures, plant_holds
from tests.browser.seeds import plant, rehearsed
from tests.browser.tab import Tab, chromium
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.running_part import started
from tests.fixtures.ui import UiService, serving
from tests.integration.admin.conftest import database_beside

PICTURES: Final = Path(__file__).parents[2] / "docs/pictures"
_WIDTH: Final = 1280
#: Width, height and theme of the pictures to compare by eye.
_ALL: Final = ((_WIDTH, 900, "light"), (_WIDTH, 900, "dark"), (375, 800, "light"))


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every width and theme, into this folder")
    folder: Path | None = parser.parse_args().all
    with _service() as service, chromium(ensure_browser()) as browser:
        group = plant(service.dsn)
        pages = {"overview": "/", "parked": "/parked", "group": f"/groups/{group}"}
        rehearsed(service.dsn, group, landed=57, failed=3)
        for width, height, theme in _ALL if folder else ((_WIDTH, 900, "light"),):
            suffix = f"-{width}-{theme}" if folder else ""
            with _tab(browser, service, width, height, theme) as tab:
                for name, path in pages.items():
                    plant_figures(service)
                    tab.go(path).page.evaluate("document.fonts.ready.then(() => true)")
                    shown = (folder or PICTURES) / f"ui-{name}{suffix}.png"
                    tab.page.screenshot(path=shown, full_page=folder is not None)


@contextmanager
def _service() -> Iterator[UiService]:
    with (
        tempfile.TemporaryDirectory() as folder,
        started(Postgres(Path(folder))) as server,
    ):
        templates = Templates(server.dsn)
        with (
            database_beside(server.dsn, templates.control) as dsn,
            database_beside(server.dsn, templates.writer) as writer,
            serving(dsn, databases={"onramp": writer}, known=KNOWN) as service,
        ):
            plant_holds(writer, dsn)
            yield service


@contextmanager
def _tab(browser: Browser, service: UiService, width: int, height: int, theme: str) -> Iterator[Tab]:
    with closing(Tab(browser, service, width=width, height=height, theme=theme)) as tab:
        yield tab.log_in("ada")


if __name__ == "__main__":
    main()
