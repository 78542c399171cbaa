"""The statement of a day: the records of each topic and destination, and whether they add up."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Final

from anyio import from_thread
from fastapi import Query
from fastapi.responses import Response

from services.admin.statements.day_statements import DayStatement, DayStatements
from services.admin.ui.formats import command
from services.admin.ui.routes import Ui
from services.admin.ui.view import Down, PageView, View
from services.ops.statement.balance import TopicLine
from services.ops.statement.one_topic import of_topic
from services.ops.statement.reading import OUTCOMES

_OPERATION: Final = "GET /v1/statement"
_PAGE: Final = 50
_MAX_DIFFERENCES: Final = 50
_POLL_SECONDS: Final = 30


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/statement")
    def show_statement(
        view: View,
        day: Annotated[str, Query(max_length=64)] = "",
        type: Annotated[str, Query(max_length=256)] = "",  # noqa: A002 - the name in the URL
        cursor: Annotated[str, Query(max_length=256)] = "",
        rows: Annotated[str, Query(max_length=8)] = "",
    ) -> Response:
        view.require(_OPERATION)
        days: DayStatements = view.state.day_statements
        today = view.now.date()
        chosen, problem = _day_of(day, days, today)
        found = _statement_of(view, days, chosen) if chosen else None
        topic = view.state.registry().topic_of(type) if type else ""
        if found and topic:
            found = DayStatement(found.day, of_topic(found.statement, topic), found.at)
        lines = found.statement.lines if found else []
        is_whole = rows == "all"
        shown, following = (lines, None) if is_whole else _page(lines, cursor)
        return view.page(
            "statement.html",
            title="Statement",
            nav="statement",
            cli=command("onramp statement", day=chosen, type=type),
            poll=_POLL_SECONDS if chosen == today and found else 0,
            status=422 if problem else 200,
            day=chosen,
            today=today,
            before=chosen - timedelta(days=1) if chosen else None,
            after=chosen + timedelta(days=1) if chosen and chosen < today else None,
            typed_day=chosen.isoformat() if chosen else day,
            event_type=type,
            problem=problem,
            found=found,
            topics=_topics(found, shown) if found else [],
            count=len({line.topic for line in lines}),
            is_whole=is_whole,
            differences=found.statement.differences[:_MAX_DIFFERENCES] if found else [],
            sources=found.statement.as_dict()["sources"] if found and found.statement.tables else [],
            transforms=[each.as_dict() for each in found.statement.transforms] if found else [],
            lake=[each.as_dict() for each in found.statement.lake] if found else [],
            following=following,
            filters={"day": chosen, "type": type or None, "cursor": cursor or None},
            outcomes=OUTCOMES,
        )


def _day_of(text: str, days: DayStatements, today: date) -> tuple[date | None, str]:
    """Return the day of the URL, else yesterday if it has a statement, else today; or why it is none."""
    if not text:
        yesterday = days.yesterday
        is_known = yesterday is not None and yesterday.day < today and yesterday.is_known
        return (yesterday.day if yesterday and is_known else today), ""
    try:
        day = date.fromisoformat(text) if len(text) == len("2026-01-31") else None
    except ValueError:
        day = None
    if day is None or day == date.min:
        return None, "This is no day. A day is written as 2026-01-31."
    if day > today:
        return None, f"{day} has not begun: the last day is today, {today} (UTC)."
    return day, ""


def _statement_of(view: PageView, days: DayStatements, day: date) -> DayStatement | None:
    """Return the statement of a day, with a banner if the control database does not answer."""
    if day == view.now.date():
        if days.problem:
            view.down.append(Down("the control database", days.problem, _since(days, view.now)))
        return days.today if days.today and days.today.day == day else None
    return view.part("the control database", lambda: from_thread.run(lambda: days.of_past_day(day, view.now)))


def _since(days: DayStatements, now: datetime) -> datetime:
    return days.today.at if days.today else now


def _page(lines: Sequence[TopicLine], cursor: str) -> tuple[Sequence[TopicLine], str | None]:
    """Return the lines of 50 topics after `cursor`, and the cursor of the next page."""
    names = sorted({line.topic for line in lines})
    first = bisect_right(names, cursor)
    chosen = {*names[first : first + _PAGE]}
    following = names[first + _PAGE - 1] if len(names) > first + _PAGE else None
    return [line for line in lines if line.topic in chosen], following


def _topics(found: DayStatement, lines: Sequence[TopicLine]) -> list[dict[str, Any]]:
    """Return the rows: each topic in each database, with its destinations and counts without one."""
    states = found.statement.parked_states or {}
    rows = []
    for line in lines:
        further = {
            "filtered": line.filtered,
            "unroutable": line.unroutable,
            "waiting on Kafka": line.diverted,
            "skipped by an operator": line.skipped,
            "in flight": found.statement.in_flight.get(line.topic),
        }
        rows.append(
            {
                "topic": line.topic,
                "database": line.database,
                "records": line.records,
                "further": [(name, n) for name, n in further.items() if n],
                "destinations": [
                    {**each.as_dict(), "parked_now": states.get((line.topic, each.destination), {})}
                    for each in line.destinations
                ],
            }
        )
    return rows
