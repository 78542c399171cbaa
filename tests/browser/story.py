"""The story of the web UI: watch events flow, set up a table, fix parked events, survive an outage."""

import re
import shlex
from datetime import UTC, datetime
from typing import Any, Final

from playwright.sync_api import expect

from tests.browser.keyboard import Keyboard
from tests.browser.real_stack import SECOND, RealStack
from tests.fixtures.writer import eventually, rows

FLIGHTS: Final = 500
#: Events with a wrong amount, those of them that no fix of their form lands, and the size of a request.
WRONG: Final = 1_500
_HOPELESS: Final = 2
_REQUEST: Final = 500
_PATIENCE: Final = 120
_SIZES: Final = ((320, 800), (375, 800), (1280, 900))
_LOCATIONS: Final = "[...document.querySelectorAll('.legend li')].map((each) => each.innerText)"
_ORDERS: Final = f"{SECOND}.public.orders"


class Story:
    """One operator with a keyboard, and a stack."""

    def __init__(self, stack: RealStack, keyboard: Keyboard) -> None:
        self.stack = stack
        self.keys = keyboard
        self.page = keyboard.page
        #: Orders of the type that have landed in its table.
        self.landed = 0
        self.parked = 0

    def log_in(self) -> None:
        self.page.goto(self.stack.login_link())
        self.keys.press("Enter")
        self.page.wait_for_url("**/ui/")

    def see_flights(self) -> None:
        self.stack.send_flights(FLIGHTS)
        self.keys.sees(".rows", "flight_departed")
        eventually(lambda: self.located("landed") >= FLIGHTS, _PATIENCE)

    def send_the_first_order(self) -> None:
        self.stack.send([order(0, 12.5)])
        self.keys.sees(".rows", "order_placed")

    def make_the_table(self) -> None:
        """Go through the wizard; each of its steps is accessible in both themes, wide and narrow."""
        keys = self.keys
        keys.go("t", "/types")
        keys.use(keys.link("New event type"))
        self.page.wait_for_url("**/ui/types/new")
        self.require_accessible()
        keys.type("order_placed")
        keys.press("Enter")
        self.page.wait_for_url("**/2")
        assert self.columns() == {"order_id": "text", "amount": "numeric", "currency": "text"}
        self.require_accessible()
        keys.reach("input[name=misfits]:checked")
        keys.press("ArrowDown")
        assert self.page.get_by_label("parked at the table").is_checked()
        keys.use(keys.button("Next"))
        self.page.wait_for_url("**/3")
        keys.choose("#database", SECOND)
        keys.fill("Table", "orders")
        with self.page.expect_navigation():
            keys.use(keys.button("Check again"))
        assert self.page.locator("#table").input_value() == "orders"
        expect(self.page.get_by_text("fails")).to_have_count(0)
        self.require_accessible()
        keys.use(keys.button("Next"))
        self.page.wait_for_url("**/4")
        keys.sees("#main", "1 of 1 sample would land")
        self.require_accessible()
        keys.use(keys.link("Next"))
        self.page.wait_for_url("**/5")
        self.require_accessible()
        keys.fill("Reason", "orders get a table")
        before = self.stack.digest_of_routes()
        keys.press("Enter")
        self.page.wait_for_url("**/types/made/order_placed*")
        eventually(lambda: self.stack.digest_of_routes() != before)
        keys.sees("#main", f"No row is in {_ORDERS} yet")

    def see_the_first_row(self) -> None:
        """Run the command of the page, and wait for its row."""
        command = shlex.split(self.page.locator("#curl").inner_text().replace("KEY", self.stack.key))
        self.stack.curl(*command[1:])
        self.keys.sees("#main", f"A row is in {_ORDERS}")
        self.require_accessible()
        self.landed = 1
        assert self.rows_of_orders() == 1

    def send_wrong_orders(self) -> None:
        """The first parked ones are one group, the type pauses, and the Overview says where each event is."""
        keys = self.keys
        keys.go("o", "/")
        wrong = [order(n, "n/a" if n <= _HOPELESS else "12,50") for n in range(1, WRONG + 1)]
        self.stack.send(wrong[:_REQUEST])
        eventually(lambda: self.located("parked") == _REQUEST, _PATIENCE)
        for begin in range(_REQUEST, WRONG, _REQUEST):
            self.stack.send(wrong[begin : begin + _REQUEST])
        keys.sees("#status", "1 event type is paused.")
        eventually(lambda: self.located("parked") + self.located("waiting") == WRONG, _PATIENCE)
        self.parked = self.located("parked")
        waiting = self.located("waiting")
        assert _REQUEST < self.parked < WRONG
        keys.sees("#status", f"{waiting:,} events wait until an operator resumes it")
        keys.sees("#status", f"{self.parked:,} parked events need an operator")
        keys.sees("section[aria-labelledby=held]", "order_placed")

    def open_the_group(self) -> None:
        keys = self.keys
        keys.go("p", "/parked")
        expect(self.page.locator("[data-row]")).to_have_count(1, timeout=_PATIENCE * 1000)
        expect(self.page.locator("[data-row] td.last").first).to_have_text(f"{self.parked:,}")
        keys.press("j", "Enter")
        self.page.wait_for_url("**/ui/groups/*")

    def rehearse(self) -> None:
        keys = self.keys
        keys.choose("#kind-0", "Text with a decimal comma")
        keys.use("#rehearse")
        self.page.wait_for_url("**/ui/groups/*?rehearsed=*")

    def see_the_rehearsal(self) -> None:
        self.keys.sees("#rehearsal", "done, nothing was written")
        assert self.outcome() == {
            "would land": self.parked - _HOPELESS,
            "there already": 0,
            "still fail": _HOPELESS,
        }
        assert self.rows_of_orders() == self.landed
        self.require_accessible()

    def replay(self, rate: int | None = None) -> None:
        keys = self.keys
        keys.use("#replay")
        self.page.wait_for_url("**/ui/groups/*/replay/*")
        expect(self.page.locator(":focus")).to_have_text("Cancel")
        self.press_back_to("#ask-reason")
        keys.type("the sender writes decimal commas")
        if rate:
            keys.fill("At most, events per second", str(rate))
        keys.press("Enter")
        self.page.wait_for_url("**/ui/jobs/*")

    def see_the_replay(self) -> None:
        self.keys.sees("#main .pill", "done")
        self.landed += self.parked - _HOPELESS
        eventually(lambda: self.rows_of_orders() == self.landed, _PATIENCE)
        amounts = rows(self.stack.second.dsn, "SELECT amount, count(*)::int FROM public.orders GROUP BY 1")
        assert {float(amount): count for amount, count in amounts} == {12.5: self.landed}

    def discard_and_restore_the_rest(self) -> None:
        keys = self.keys
        self.open_the_rest()
        keys.use("#discard")
        self.press_back_to("#ask-count")
        keys.type(str(_HOPELESS))
        keys.fill("Reason", "no amount at all")
        keys.press("Enter")
        self.page.wait_for_url("**/ui/jobs/*")
        keys.sees("#main .pill", "done")
        keys.go("p", "/parked")
        keys.sees("#main", "No group of parked events is open")
        keys.use(keys.link("Resolved"))
        self.page.wait_for_url("**/ui/parked?state=resolved")
        keys.press("j", "Enter")
        self.page.wait_for_url("**/ui/groups/*")
        keys.sees("#fix", "there is nothing to fix")
        keys.use("#restore")
        self.press_back_to("#ask-reason")
        keys.type("the sender asks for them")
        keys.press("Enter")
        self.page.wait_for_url("**/ui/jobs/*")
        keys.sees("#main .pill", "done")
        self.open_the_rest()

    def open_the_rest(self) -> None:
        """Open the group again: the events that no fix of their form lands are open."""
        keys = self.keys
        keys.go("p", "/parked")
        keys.sees("[data-row] td.last", f"{_HOPELESS}of {self.parked:,}")
        keys.press("j", "Enter")
        self.page.wait_for_url("**/ui/groups/*")
        keys.sees("#rehearse", f"Rehearse {_HOPELESS} events")

    def resume(self) -> None:
        """Resume the type; its waiting events are parked like those before, and none waits."""
        keys = self.keys
        keys.go("w", "/waiting")
        keys.use(keys.link("Resume"))
        self.page.wait_for_url("**/ui/waiting/holds/resume*")
        self.press_back_to("#ask-reason")
        keys.type("the rest is to be fixed too")
        keys.press("Enter")
        self.page.wait_for_url("**/ui/waiting")
        keys.sees(".lead", "Nothing waits.")
        keys.go("o", "/")
        eventually(lambda: self.located("waiting") == 0, _PATIENCE)
        left = WRONG - (self.parked - _HOPELESS)
        eventually(lambda: self.located("parked") == left, _PATIENCE)

    def stop_the_database(self) -> None:
        """Events wait for a stopped database under its banner, and land when it answers."""
        keys = self.keys
        self.stack.second.stop()
        keys.sees(".banner.wait", f"atabase {SECOND}")
        good = [order(10_000 + n, 1.25) for n in range(20)]
        self.stack.send(good)
        eventually(lambda: self.located("waiting") == len(good), _PATIENCE)
        self.require_accessible()
        self.stack.second.start()
        self.stack.second.wait_ready()
        eventually(lambda: self.located("waiting") == 0, _PATIENCE)
        self.landed += len(good)
        eventually(lambda: self.rows_of_orders() == self.landed, _PATIENCE)
        expect(self.page.locator("#status")).not_to_contain_text(SECOND, timeout=_PATIENCE * 1000)

    def reconcile(self) -> None:
        keys = self.keys
        keys.go("r", "/reconciliation")
        keys.fill("Reason", "the end of the story")
        keys.press("Enter")
        self.page.wait_for_url("**/ui/reconciliation/*")
        keys.sees(".lead", "Reconciled:")
        keys.sees(".lead", "no finding")
        self.require_accessible()

    def kill_the_admin_service(self, job: str = "") -> None:
        """Kill the service during a `job`; the page reports it, and the session survives the restart."""
        self.keys.tab.refused = {503}
        self.stack.admin.kill()
        if job:
            running = "SELECT kind FROM onramp_admin.jobs WHERE state = 'running'"
            assert rows(self.stack.first.dsn, running) == [(job,)]
        expect(self.page.locator("#lost")).to_contain_text("does not answer", timeout=_PATIENCE * 1000)
        self.stack.admin.start()
        self.stack.admin.wait_ready()
        expect(self.page.locator("#lost")).to_be_hidden(timeout=_PATIENCE * 1000)
        self.keys.tab.refused = set()
        self.keys.forget_lost_requests()

    def located(self, name: str) -> int:
        """Return the events in one part of the bar of the Overview."""
        for text in self.page.evaluate(_LOCATIONS):
            if match := re.fullmatch(rf"{name}\s+([\d,]+)", text):
                return int(match[1].replace(",", ""))
        return -1

    def outcome(self) -> dict[str, int]:
        """Return the numbers of the shown rehearsal."""
        parts = self.page.locator("#rehearsal .outcome > div").all_inner_texts()
        found = [re.fullmatch(r"(\D+?)\s+([\d,]+)", each) for each in parts]
        return {each[1]: int(each[2].replace(",", "")) for each in found if each}

    def columns(self) -> dict[str, str]:
        """Return the columns of the second step of the wizard with their types."""
        found: list[tuple[str, str]] = self.page.evaluate(
            "[...document.querySelectorAll('tbody tr')].map((row) => "
            "[row.querySelector('input').value, row.querySelector('select').value])"
        )
        return {name: kind for name, kind in found if name}

    def rows_of_orders(self) -> int:
        [(count,)] = rows(self.stack.second.dsn, "SELECT count(*)::int FROM public.orders")
        return int(count)

    def press_back_to(self, target: str) -> None:
        """Press Shift and Tab until a field above the focused Cancel has the focus."""
        for _ in range(10):
            self.keys.press("Shift+Tab")
            if self.page.locator(target).evaluate("(each) => each === document.activeElement"):
                return
        raise AssertionError(f"{target} is not before the buttons")

    def require_accessible(self) -> None:
        for width, height in _SIZES:
            self.page.set_viewport_size({"width": width, "height": height})
            for theme in ("dark", "light"):
                self.page.emulate_media(color_scheme=theme)
                try:
                    self.keys.tab.require_accessible()
                except AssertionError as e:
                    raise AssertionError(f"{self.page.url}, {width} px, {theme}: {e}") from None


def order(number: int, amount: float | str) -> dict[str, Any]:
    """Return an event."""
    return {
        "metadata": {
            "id": f"order-{number}",
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "version": "1",
        },
        "event_name": "order_placed",
        "payload": {"order_id": f"o-{number}", "amount": amount, "currency": "EUR"},
    }
