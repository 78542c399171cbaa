"""The web UI under /ui: pages that servers render, on the functions behind /v1.

How to add a page, in ten lines:

1. Write `pages/NAME.py` with `def add(ui: Ui) -> None`; every module of `pages` is loaded by itself.
2. In `add`, declare routes: `@ui.get("/jobs") def jobs(view: View) -> Response`; paths are below /ui.
3. Read with `view.call("GET /v1/jobs", query=JobQuery(...))`: it checks the role of that route and calls
   the same function as HTTP does.  Further arguments are those of the function, by name.
   Parts without a route are in `view.state`, the `app.state` of the service (`services/admin/app.py`).
4. End with `view.page("jobs.html", title="Jobs", nav="jobs", cli="onramp errors jobs", poll=5, ...)`.
5. The template is `{% extends layout %}`, `{% from "macros.html" import ... %}` and `{% block main %}`.
6. Filters stay in the URL: `view.query` has the parameters, `href("/jobs", **filters)` makes a link.
7. A write is a page that names its effect (`view.confirm(...)`), and an `@ui.post` that ends with
   `view.go("/jobs/7")`: `view.form` has the fields, `view.once` the Idempotency-Key, `view.actor` who.
8. Errors are raised, never caught: refused, stale and unreachable have their pages (`errors.py`).
   A part that can be down alone is read with `view.part("the writer", lambda: ...)`: a value or a banner.
9. `nav` is a name in `navigation.py`; entries without a page are not shown.
10. Strings of events are hostile: no `|safe`, no inline style or script; charts are SVG (`charts.py`).
"""
