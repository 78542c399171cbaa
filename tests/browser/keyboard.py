"""A tab that is used by keyboard alone: elements are reached with Tab, and changed with keys."""

from typing import Final

from playwright.sync_api import Locator, expect

from tests.browser.tab import Tab

#: Presses of Tab within which each element of a page is reached.
_MAX_PRESSES: Final = 200
_TIMEOUT_MS: Final = 90_000
#: The browser's and htmx's words for a request without an answer.
_LOST: Final = ("ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "Failed to fetch")


class Keyboard:
    """The keyboard of an operator, and the visible text."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.page = tab.page
        tab.context.set_default_timeout(_TIMEOUT_MS)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Replace the text of the focused field."""
        self.press("Control+a")
        self.page.keyboard.type(text)

    def reach(self, target: str | Locator) -> Locator:
        """Press Tab until an element has the focus."""
        wanted = self.page.locator(target) if isinstance(target, str) else target
        expect(wanted.first).to_be_attached(timeout=_TIMEOUT_MS)
        for _ in range(_MAX_PRESSES):
            if wanted.first.evaluate("(each) => each === document.activeElement"):
                return wanted.first
            self.press("Tab")
        raise AssertionError(f"Tab does not reach {target} on {self.page.url}")

    def use(self, target: str | Locator) -> None:
        """Reach a link or a button, and press it."""
        self.reach(target)
        self.press("Enter")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def link(self, name: str) -> Locator:
        return self.page.get_by_role("link", name=name)

    def fill(self, label: str, text: str) -> None:
        """Reach a field by its label, and type."""
        self.reach(self.page.get_by_label(label))
        self.type(text)

    def choose(self, target: str | Locator, title: str) -> None:
        """Reach a list, and type the title of the choice."""
        select = self.reach(target)
        self.page.keyboard.type(title)
        shown = select.evaluate("(each) => each.selectedOptions[0].textContent")
        assert shown.startswith(title), f"{shown!r} is chosen instead of {title!r}"

    def go(self, key: str, path: str) -> None:
        """Press `g` and the key of a page."""
        if self.tab.is_typing:
            self.press("Tab")
        self.press("g", key)
        self.page.wait_for_url(f"**/ui{path}")

    def sees(self, selector: str, text: str) -> None:
        """Wait until an element has a text."""
        expect(self.page.locator(selector).first).to_contain_text(text, timeout=_TIMEOUT_MS)

    def forget_lost_requests(self) -> None:
        """Drop the browser's messages about requests to a service that was killed."""
        findings = self.tab.findings
        findings[:] = [each for each in findings if not any(word in each for word in _LOST)]
