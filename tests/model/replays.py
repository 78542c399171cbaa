"""A parked event that is replayed: two databases, the admin service's and the event's own, and no transaction over both.

One event, parked for a table without a key: nothing but the protocol keeps it from landing twice.  Its
state and attempt are the admin service's; `staged`, `replayed`, rows and totals are the database's.
The admin service dies between any two steps, a person cancels, discards and replays again, an attempt
fails, time passes, and the database is restored from a dump, of which the admin service knows nothing
until somebody has it recheck.
"""

from collections import namedtuple

RULES = {
    "attempt_new": "an attempt lands only if its row in onramp.replayed is new there",
    "one_commit": "row, totals, onramp.replayed and the staged row's removal are one transaction",
    "parked_kept": "parked never shrinks: replayed is added",
    "deleted_reopens": "a cancel reopens only what it deleted itself; of the rest onramp.replayed knows",
    "deleted_unknown": "and of that only what onramp.replayed does not know, asked once it is deleted",
    "old_dropped": "what was staged long ago is dropped, not landed",
    "recheck_lost": "a recheck opens only what onramp.replayed does not know as landed",
    "staged_again": "what is being replayed, and neither staged nor in onramp.replayed, is staged again",
}

Budget = namedtuple("Budget", "replay fail cancel discard crash old dump", defaults=(0,) * 7)
Staged = namedtuple("Staged", "attempt old")
#: done: (attempt, outcome) of onramp.replayed; half: a row that landed and of which nothing else is committed
Db = namedtuple("Db", "staged done rows parked replayed half")
#: The admin service, the only process that has a memory of its own.
W = namedtuple("W", "pc")
#: once: the attempts that were staged, as one that stages each only once remembers them
S = namedtuple("S", "state attempt db dump ws budget once", defaults=(frozenset(),))

IDLE = (W("idle"),)


class Replays:
    """The transition relation and the invariants."""

    RULES = RULES

    def __init__(self, config, rules):
        self.c, self.rules = config, frozenset(rules)

    def has(self, rule):
        return rule in self.rules

    def initial(self):
        return S("open", 0, Db(None, frozenset(), 0, 1, 0, False), None, IDLE, self.c.budget)

    def protocol(self, s):
        yield from self.writer(s)
        yield from getattr(self, s.ws[0].pc)(s)

    def writer(self, s):
        """One transaction for each staged row."""
        db, staged = s.db, s.db.staged
        if db.half:
            yield "the writer says so", s._replace(db=self.said(db, "landed"))
        elif staged and self.has("attempt_new") and any(a == staged.attempt for a, _ in db.done):
            yield "the writer knows the attempt", s._replace(db=db._replace(staged=None))
        elif staged and staged.old and self.has("old_dropped"):
            yield "the writer drops what is old", s._replace(db=db._replace(staged=None))
        elif staged:
            landed = db._replace(rows=db.rows + 1)
            landed = self.said(landed, "landed") if self.has("one_commit") else landed._replace(half=True)
            yield f"the writer lands attempt {staged.attempt}", s._replace(db=landed)
            if s.budget.fail:
                budget = s.budget._replace(fail=s.budget.fail - 1)
                yield f"attempt {staged.attempt} fails", s._replace(db=self.said(db, "parked"), budget=budget)

    def said(self, db, outcome):
        landed = outcome == "landed"
        parked = db.parked - (landed and not self.has("parked_kept"))
        done = db.done | {(db.staged.attempt, outcome)} if db.staged else db.done
        return db._replace(staged=None, done=done, parked=parked, replayed=db.replayed + landed, half=False)

    def idle(self, s):
        """The admin service follows a replay: its outcome, and whether it is staged."""
        if s.state != "replaying":
            return
        outcome = dict(s.db.done).get(s.attempt)
        if outcome:
            yield f"it has {outcome}", s._replace(state="replayed" if outcome == "landed" else "open")
        elif self.has("staged_again") or s.attempt not in s.once:
            yield "onramp.replayed does not know it", s._replace(ws=(W("asked"),))

    def asked(self, s):
        """Between the question and the staging the writer may have landed it."""
        if s.db.staged:
            yield "it is staged", s._replace(ws=IDLE)
        else:
            db = s.db._replace(staged=Staged(s.attempt, False))
            once = s.once if self.has("staged_again") else s.once | {s.attempt}
            yield f"stages attempt {s.attempt}", s._replace(db=db, ws=IDLE, once=once)

    def cancel(self, s):
        there = s.db.staged is not None and s.db.staged.attempt == s.attempt
        if not there:
            yield "finds nothing to delete", s._replace(ws=(W("missed"),))
            return
        known = self.has("deleted_unknown") and any(a == s.attempt for a, _ in s.db.done)
        db = s.db._replace(staged=None)
        yield "deletes what is staged", s._replace(db=db, ws=(W("missed" if known else "deleted"),))

    def deleted(self, s):
        yield "reopens what it deleted", s._replace(state="open", ws=IDLE)

    def missed(self, s):
        state = s.state if self.has("deleted_reopens") else "open"
        yield "has deleted nothing", s._replace(state=state, ws=IDLE)

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
            yield "a person cancels", less("cancel", ws=(W("cancel"),))
        if not idle and b.crash:
            yield "the admin service dies", less("crash", ws=IDLE)
        if s.db.staged and not s.db.staged.old and b.old:
            yield "fifteen minutes pass", less("old", db=s.db._replace(staged=s.db.staged._replace(old=True)))
        if b.dump and s.dump is None and not s.db.half:
            yield "a dump is taken", s._replace(dump=s.db)
        if b.dump and isinstance(s.dump, Db) and s.dump != s.db and not s.db.half:
            staged = s.dump.staged and s.dump.staged._replace(old=True)
            yield "the dump is restored", less("dump", db=s.dump._replace(staged=staged), dump="restored")
        if idle and s.state == "replayed" and not (self.is_known(s) and self.has("recheck_lost")):
            yield "a person has it recheck", s._replace(state="open")

    def is_well(self, s):
        """Return whether no recheck is needed."""
        return s.state != "replayed" or self.is_known(s)

    def is_known(self, s):
        """Whether any attempt has landed, for all that the database knows."""
        return any(outcome == "landed" for _, outcome in s.db.done)

    def broken(self, s):
        db = s.db
        if db.rows > 1:
            return "2: duplicate row"
        if db.rows and s.state == "discarded":
            return "landed and discarded"
        if db.parked != 1:
            return f"8: {db.parked} parked of one"
        if db.replayed != db.rows and not db.half:
            return f"8: {db.replayed} counted as replayed, and {db.rows} rows"
        return None

    def unfinished(self, s):
        if s.state == "replaying":
            return "replaying forever"
        return f"{s.state}, and there are {s.db.rows} rows" if s.db.rows != (s.state == "replayed") else None
