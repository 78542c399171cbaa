"""Replay of a refused destination: the default database's writer routes it, and it lands in A or in B.

One event, parked for no table; the tables have no key.  Today's routes bring it to A, to B or nowhere, and change
whenever they like.  State and attempt are the admin service's, which dies between any two steps; `staged` and
`done` (onramp.replayed) are each database's own.  A person replays, cancels and discards, what is staged grows
old, and a database is restored from a dump.
"""

from collections import namedtuple

RULES = {
    "sorted_once": "of an attempt that is known in the default database nothing is sorted",
    "decision_followed": "an attempt is staged where onramp.replayed of the default database says, not by today's routes",
    "refused_new": "an attempt lands only if its row in onramp.replayed is new in the database that it belongs to",
    "sorted_again": "the writer there sorts it by the routes of the moment, and lands nothing of another's",
    "first_again": "what is being replayed, and neither staged nor known in the default database, is staged there again",
    "there_again": "what was sorted, and is neither staged nor known where it belongs, is staged there again",
    "revived_dropped": "what was staged long ago is dropped there, not landed",
    "cancel_follows": "a cancel goes on to where the attempt was sorted to",
    "cancel_deletes": "a cancel reopens only what it deleted itself",
    "cancel_asks": "and of that only what onramp.replayed does not know, asked once it is deleted",
    "recheck_all": "a recheck opens only what no database knows as landed",
}

Budget = namedtuple("Budget", "replay cancel discard crash old route dump", defaults=(0,) * 7)
Staged = namedtuple("Staged", "attempt old")
#: against: a row landed that the routes of that moment did not bring there; done: (attempt, outcome); of the default database, an outcome is the database that it belongs to, or parked
Db = namedtuple("Db", "staged done rows against", defaults=(None, frozenset(), 0, False))
#: The admin service: where it is, and in which database.
W = namedtuple("W", "pc at", defaults=("",))
#: D is the default database, A and B are the others; once: where attempts were staged, as one remembers that stages
#: each only once; told: decisions, as one remembers that keeps them
S = namedtuple(
    "S", "state attempt D A B routes dump ws budget once told", defaults=(frozenset(), frozenset())
)

IDLE = (W("idle"),)


def _one(done, attempt):
    return next((outcome for number, outcome in done if number == attempt), None)


class Refused:
    """The transition relation and the invariants."""

    RULES = RULES

    def __init__(self, config, rules):
        self.c, self.rules = config, frozenset(rules)

    def has(self, rule):
        return rule in self.rules

    def initial(self):
        return S("open", 0, Db(), Db(), Db(), "A", None, IDLE, self.c.budget)

    def protocol(self, s):
        yield from self.sorter(s)
        for name in "AB":
            yield from self.writer(s, name)
        yield from getattr(self, s.ws[0].pc)(s)

    def sorter(self, s):
        """The default database's writer: a transaction for each staged row."""
        db, staged = s.D, s.D.staged
        if not staged:
            return
        gone = db._replace(staged=None)
        if self.has("sorted_once") and _one(db.done, staged.attempt):
            yield "the default database knows the attempt", s._replace(D=gone)
        elif staged.old:
            yield "the default database drops what is old", s._replace(D=gone)
        else:
            others = {(a, o) for a, o in db.done if a != staged.attempt}
            done = frozenset(others | {(staged.attempt, s.routes or "parked")})
            yield (
                f"attempt {staged.attempt} is sorted: {s.routes or 'refused'}",
                s._replace(D=gone._replace(done=done)),
            )

    def writer(self, s, name):
        db = getattr(s, name)
        staged = db.staged
        if not staged:
            return
        gone = db._replace(staged=None)
        if self.has("refused_new") and _one(db.done, staged.attempt):
            yield f"{name} knows the attempt", s._replace(**{name: gone})
        elif staged.old and self.has("revived_dropped"):
            yield f"{name} drops what is old", s._replace(**{name: gone})
        elif s.routes != name and self.has("sorted_again"):
            done = db.done | {(staged.attempt, "parked")}
            yield f"{name} is not where it belongs", s._replace(**{name: gone._replace(done=done)})
        else:
            done = db.done | {(staged.attempt, "landed")}
            landed = gone._replace(done=done, rows=db.rows + 1, against=s.routes != name)
            yield f"{name} lands attempt {staged.attempt}", s._replace(**{name: landed})

    def idle(self, s):
        """The admin service follows a replay from the default database to the event's own."""
        if s.state != "replaying":
            return
        where = self.where(s)
        told = s.told | ({(s.attempt, where)} if where and self.has("decision_remembered") else set())
        if where is None:
            if self.has("first_again") or (s.attempt, "D") not in s.once:
                yield "the default database does not know it", s._replace(ws=(W("asked", "D"),))
        elif where == "parked":
            yield "it is refused again", s._replace(state="open")
        elif outcome := _one(getattr(s, where).done, s.attempt):
            yield (
                f"it has {outcome}",
                s._replace(state="replayed" if outcome == "landed" else "open", told=told),
            )
        elif self.has("there_again") or (s.attempt, where) not in s.once:
            yield f"{where} does not know it", s._replace(ws=(W("asked", where),), told=told)

    def where(self, s):
        """Where the attempt belongs; None: it is not sorted yet."""
        where = _one(s.told, s.attempt) or _one(s.D.done, s.attempt)
        if where in ("A", "B") and not self.has("decision_followed"):
            return s.routes or where
        return where

    def asked(self, s):
        """Between the question and the staging the writer may have taken it."""
        at = s.ws[0].at
        db = getattr(s, at)
        if db.staged:
            yield f"it is staged in {at}", s._replace(ws=IDLE)
        else:
            once = (
                s.once | {(s.attempt, at)}
                if not (self.has("first_again") and self.has("there_again"))
                else s.once
            )
            db = db._replace(staged=Staged(s.attempt, False))
            yield f"stages attempt {s.attempt} in {at}", s._replace(**{at: db}, ws=IDLE, once=once)

    def cancel(self, s):
        """Delete the staged row here; stage it first if it is missing, so that no other step has deleted it."""
        at = s.ws[0].at
        db = getattr(s, at)
        if self.has("cancel_deletes"):
            db = db._replace(staged=None)
        known = _one(db.done, s.attempt)
        if known and at == "D" and known != "parked" and self.has("cancel_follows"):
            then = W("cancel", self.where(s))
        elif (
            known
            and (at != "D" or known == "parked" or self.has("cancel_follows"))
            and self.has("cancel_asks")
        ):
            then = W("idle")
        else:
            then = W("deleted")
        yield f"takes back from {at}", s._replace(**{at: db}, ws=(then,))

    def deleted(self, s):
        yield "reopens it", s._replace(state="open", ws=IDLE)

    def environment(self, s):
        b = s.budget

        def less(name, **change):
            return s._replace(budget=b._replace(**{name: getattr(b, name) - 1}), **change)

        idle = s.ws == IDLE
        if idle and s.state == "open" and b.replay:
            yield "a person replays it", less("replay", state="replaying", attempt=s.attempt + 1)
        if idle and s.state == "open" and b.discard:
            yield "a person discards it", less("discard", state="discarded")
        if idle and s.state == "replaying" and b.cancel:
            yield "a person cancels", less("cancel", ws=(W("cancel", "D"),))
        if not idle and b.crash:
            yield "the admin service dies", less("crash", ws=IDLE)
        for name in self.c.routes:
            db = getattr(s, name)
            if db.staged and not db.staged.old and b.old:
                yield (
                    f"fifteen minutes pass in {name}",
                    less("old", **{name: db._replace(staged=Staged(db.staged.attempt, True))}),
                )
        for routes in ("A", "B", None):
            if routes != s.routes and b.route:
                yield f"routes change to {routes}", less("route", routes=routes)
        yield from self.dumps(s, less)
        if idle and s.state == "replayed" and not (self.is_known(s) and self.has("recheck_all")):
            yield "a person has it recheck", s._replace(state="open")

    def dumps(self, s, less):
        """Of one of the databases; an hour passes until it is restored."""
        for name in self.c.sizes:
            db = getattr(s, name)
            if s.budget.dump and s.dump is None:
                yield f"a dump of {name} is taken", s._replace(dump=(name, db))
            if s.budget.dump and s.dump and s.dump[0] == name and s.dump[1] != db:
                old = s.dump[1]
                staged = old.staged and Staged(old.staged.attempt, True)
                yield (
                    f"{name} is restored",
                    less("dump", **{name: old._replace(staged=staged)}, dump=("restored", None)),
                )

    def is_known(self, s):
        """Whether it has landed, for all that any database knows."""
        return any(outcome == "landed" for db in (s.A, s.B) for _, outcome in db.done)

    def is_well(self, s):
        """Return whether no recheck is needed."""
        return s.state != "replayed" or self.is_known(s)

    def broken(self, s):
        rows = s.A.rows + s.B.rows
        if rows > 1:
            return f"2: {rows} rows of one event"
        if rows and s.state == "discarded":
            return "landed and discarded"
        if s.A.against or s.B.against:
            return "landed where nobody may write any more"
        return None

    def unfinished(self, s):
        rows = s.A.rows + s.B.rows
        if s.state == "replaying":
            return "replaying forever"
        return f"{s.state}, and there are {rows} rows" if rows != (s.state == "replayed") else None
