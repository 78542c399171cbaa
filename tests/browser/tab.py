"""A tab of a browser that fails its test on a console message, a CSP report or a foreign request."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Locator, Request, sync_playwright

from stack.browser import Browser as Program
from tests.fixtures.ui import key_of

AXE: Final = Path(__file__).parent / "vendored/axe.min.js"
_TIMEOUT_MS: Final = 20_000
#: Rules of WCAG 2.2 A and AA.
_RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_REFUSED: Final = "Failed to load resource: the server responded with a status of"


@contextmanager
def chromium(program: Program) -> Iterator[Browser]:
    """Start the browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(program.program), args=["--no-sandbox"], env={**os.environ, **program.env}
        )
        yield browser
        browser.close()


class HasUrl(Protocol):
    """A service whose pages a tab opens."""

    @property
    def url(self) -> str: ...


class Tab:
    """One tab with cookies of its own."""

    def __init__(
        self,
        browser: Browser,
        service: HasUrl,
        *,
        width: int = 1280,
        height: int = 900,
        theme: str = "light",
        has_script: bool = True,
    ) -> None:
        self._service = service
        self.context = browser.new_context(
            base_url=service.url,
            viewport={"width": width, "height": height},
            color_scheme="dark" if theme == "dark" else "light",
            java_script_enabled=has_script,
            reduced_motion="reduce",
        )
        self.context.set_default_timeout(_TIMEOUT_MS)
        self.page = self.context.new_page()
        #: Findings of the browser, which the end of the test reports.
        self.findings: list[str] = []
        #: Statuses of answers that the test expects to be refused.
        self.refused: set[int] = set()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.findings.append(f"error: {error}"))
        self.context.on("request", self._on_request)

    def close(self) -> None:
        """Close the tab.  Raise `AssertionError` with what the browser has reported."""
        self.context.close()
        assert not self.findings, "\n".join(self.findings)

    def log_in(self, name: str) -> "Tab":
        self.go("/login")
        self.page.get_by_label("Key of an operator").fill(key_of(name))
        self.press("Log in")
        self.page.wait_for_url(lambda url: "/login" not in url)
        return self

    def go(self, path: str) -> "Tab":
        self.page.goto(f"/ui{path}")
        return self

    def press(self, name: str) -> None:
        """Press a button, and wait until the page that it leads to is loaded."""
        self.page.get_by_role("button", name=name, exact=True).click()
        self.page.wait_for_load_state()

    def follow(self, name: str) -> None:
        """Follow a link, and wait until its page is loaded."""
        self.page.get_by_role("link", name=name).first.click()
        self.page.wait_for_load_state()

    def text(self, selector: str = "#main") -> str:
        return self.page.locator(selector).inner_text()

    def find(self, selector: str, *, has_text: str | None = None) -> Locator:
        return self.page.locator(selector, has_text=has_text)

    def wait_for(self, script: str) -> None:
        """Wait until a function of the page returns true; the policy of the pages refuses an expression."""
        self.page.wait_for_function(script)

    @property
    def focused(self) -> str:
        """Return the id of the focused element, or of the row that it is in."""
        found: str = self.page.evaluate(
            "document.activeElement.id || document.activeElement.closest('[data-row]')?.id || ''"
        )
        return found

    @property
    def is_typing(self) -> bool:
        """Return whether keys go into a field."""
        is_field: bool = self.page.evaluate(
            "document.activeElement.matches('input:not([type=checkbox], [type=radio]), textarea, select')"
        )
        return is_field

    def require_accessible(self) -> None:
        """Raise `AssertionError` with the findings of axe-core, and for a page that scrolls sideways."""
        self.page.evaluate(AXE.read_text("utf-8"))
        found: Sequence[dict[str, Any]] = self.page.evaluate(
            f"axe.run(document, {{runOnly: {_RULES}}}).then((r) => r.violations)"
        )
        said = [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]
        assert not said, "\n".join(said)
        width = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1], f"the page is {width[0]} px wide in a window of {width[1]} px"

    def _on_console(self, message: ConsoleMessage) -> None:
        is_expected = message.text.startswith(_REFUSED) and any(
            f"{status} " in message.text for status in self.refused
        )
        if not is_expected:
            self.findings.append(f"{message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme != "data" and f"{url.scheme}://{url.netloc}" != self._service.url:
            self.findings.append(f"foreign request: {request.url}")
