"""The entries of the sidebar in their order; an entry is shown once a page has its path."""

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A link of the sidebar; `key` follows `g` on the keyboard, `need` is an operation that it reads with."""

    name: str
    title: str
    path: str
    icon: str
    key: str
    need: str


ENTRIES: Final = (
    Entry("overview", "Overview", "/", "activity", "o", "GET /v1/groups"),
    Entry("parked", "Parked", "/parked", "inbox", "p", "GET /v1/groups"),
    Entry("waiting", "Waiting", "/waiting", "clock", "w", "GET /v1/groups"),
    Entry("tracers", "Tracers", "/tracers", "target", "l", "GET /v1/groups"),
    Entry("types", "Event types", "/types", "layers", "t", "GET /v1/types"),
    Entry("transforms", "Transforms", "/transforms", "shuffle", "f", "GET /v1/transforms"),
    Entry("topics", "Topics", "/topics", "list", "q", "GET /v1/topics"),
    Entry("databases", "Databases", "/databases", "database", "d", "GET /v1/destinations"),
    Entry("lake", "Lake", "/lake", "waves", "i", "GET /v1/destinations"),
    Entry("sources", "Sources", "/sources", "branch", "s", "GET /v1/types"),
    Entry("jobs", "Jobs", "/jobs", "play", "j", "GET /v1/jobs"),
    Entry("keys", "Keys", "/keys", "key", "k", "GET /v1/keys"),
    Entry("reconciliation", "Reconciliation", "/reconciliation", "scale", "r", "GET /v1/audit-log"),
    Entry("statement", "Statement", "/statement", "sum", "c", "GET /v1/statement"),
    Entry("audit", "Audit log", "/audit", "book", "a", "GET /v1/audit-log"),
    Entry("errors", "Errors", "/errors", "help", "e", "GET /v1/groups"),
)
