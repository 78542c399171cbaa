"""Databases that change between a writer's end and the next one's start, and one that has two owners.

`ChangingDatabases`: two names in the settings; B is taken out of them and put back, or comes in
later, while plans are unfinished, events wait, or nothing does.  `TwoOwners`: two Onramps, each
with a Kafka and topics of its own, and two names of the first, for one database.
"""

from collections import namedtuple

RULES = {
    "unknown_halts": "an unfinished plan that names an unknown database halts its partition",
    "unknown_raises": "a row for an unknown database is an error, it is not left out",
    "unknown_kept": "what waits for an unknown database is kept",
    "sight_at_stand": "a database seen for the first time begins where the writer stands",
}
OWNER_RULES = {
    "owner_checked": "a database has an owner, cluster and name: who is another is halted there",
    "owner_once": "the owner is written once, and by nobody else over it",
    "claimed_only": "a writer reads the ledger rows of its own partitions: another's fence nobody",
}

Budget = namedtuple("Budget", "change down crash", defaults=(0, 0, 0))
Db = namedtuple("Db", "up next rows")
#: names: of the settings that a plan is made with
Plan = namedtuple("Plan", "frm to names")
#: ok, halted: names of databases
W = namedtuple("W", "pc at plan ok halted")
#: names: of the settings; due: the databases that each event is for, once it was planned
S = namedtuple("S", "names group plan base due marks dbs ws budget")

NEW = W("new", 0, None, (), "")
NAMES = "AB"


def put(seq, index, value):
    return (*seq[:index], value, *seq[index + 1 :])


class ChangingDatabases:
    """Every event is for all the databases that were in the settings when it was planned."""

    RULES = RULES

    def __init__(self, config, rules):
        self.c, self.rules, self.end = config, frozenset(rules), config.sizes[0]

    def has(self, rule):
        return rule in self.rules

    def initial(self):
        return S(self.c.routes, 0, None, (None, None), ("",) * self.end, ((), ()), (Db(True, None, ()),) * 2, (NEW,), self.c.budget)

    def undrained(self, s, d):
        return [m for m in s.marks[d] if m[1] > (s.dbs[d].next or 0)]

    def covered(self, s, d, upto):
        at = s.dbs[d].next
        for frm, to, _ in sorted(self.undrained(s, d)):
            at = max(at, to) if frm <= at else at
        return at >= upto

    def protocol(self, s):
        [w] = s.ws
        def go(label, state=s, **change):
            return label, state._replace(ws=(state.ws[0]._replace(**change),))
        if w.pc == "start":
            base = tuple(
                (s.group if self.has("sight_at_stand") else 0) if b is None and NAMES[d] in s.names else b
                for d, b in enumerate(s.base))
            pinned = s.plan if s.plan and s.plan.to > s.group else None
            if pinned and set(pinned.names) - set(s.names) and self.has("unknown_halts"):
                yield go("halts the partition: its plan names an unknown database", pc="halted")
            else:
                yield go(f"starts at {s.group}", s._replace(base=base), pc="idle", at=s.group, plan=pinned, ok=(), halted="")
        elif w.pc == "idle":
            yield from self.claims(s, go)
            if w.ok:
                yield from self.plans(s, go)
        elif w.pc.startswith("land"):
            yield from self.lands(s, int(w.pc[4:]), go)
        elif w.pc == "commit":
            yield go(f"commits {w.plan.to}", s._replace(group=w.plan.to), at=w.plan.to, plan=None, pc="idle")
        for d in range(len(NAMES)):
            yield from self.drains(s, d, go)

    def claims(self, s, go):
        w = s.ws[0]
        for d, name in enumerate(NAMES):
            if name not in s.names or not s.dbs[d].up or name in w.ok or name in w.halted:
                continue
            db = s.dbs[d]
            state = s._replace(dbs=put(s.dbs, d, db._replace(next=s.base[d] if db.next is None else db.next)))
            if self.covered(state, d, w.at):
                yield go(f"claims {name}", state, ok=tuple(sorted({*w.ok, name})))
            else:
                yield go(f"halts {name}: its ledger is behind", state, halted="".join(sorted({*w.halted, name})))

    def plans(self, s, go):
        w = s.ws[0]
        for size in (1, 2) if not w.plan else (0,):
            plan = w.plan or Plan(w.at, w.at + size, s.names)
            if plan.to <= self.end:
                due = tuple(was or (plan.names if plan.frm <= o < plan.to else "") for o, was in enumerate(s.due))
                yield go(f"plans [{plan.frm},{plan.to}) for {plan.names}", s._replace(plan=plan, due=due), plan=plan, pc="land0")

    def lands(self, s, d, go):
        w, db, name = s.ws[0], s.dbs[d], NAMES[d]
        pc, plan = ("land1" if d == 0 else "commit"), w.plan
        if name not in s.names:
            if name in plan.names and self.has("unknown_raises"):
                yield go(f"has rows for {name}, and nobody knows it", pc="raised")
            else:
                yield go("goes on", pc=pc)
            return
        wanted = tuple(range(max(plan.frm, w.at), plan.to)) if name in plan.names else ()
        frm = max(plan.frm, w.at)
        if db.up and name in w.ok and not self.undrained(s, d):
            rest = tuple(o for o in wanted if o >= db.next)
            state = s._replace(dbs=put(s.dbs, d, db._replace(next=max(db.next, plan.to), rows=db.rows + rest)))
            yield go(f"commits [{frm},{plan.to}) in {name}", state, pc=pc)
        else:
            ok = tuple(n for n in w.ok if n != name or db.up)
            marks = put(s.marks, d, (*s.marks[d], (frm, plan.to, wanted)))
            yield go(f"diverts [{frm},{plan.to}) of {name}", s._replace(marks=marks), pc=pc, ok=ok)

    def drains(self, s, d, go):
        w, db, name = s.ws[0], s.dbs[d], NAMES[d]
        if w.pc in ("new", "start"):
            return
        if name not in s.names:
            if s.marks[d] and not self.has("unknown_kept"):
                yield go(f"trims what waits for {name}", s._replace(marks=put(s.marks, d, ())))
        elif db.up and name in w.ok and self.undrained(s, d):
            frm, to, offsets = min(self.undrained(s, d))
            if frm <= db.next:
                rest = tuple(o for o in offsets if o >= db.next)
                dbs = put(s.dbs, d, db._replace(next=to, rows=db.rows + rest))
                yield go(f"drains [{frm},{to}) of {name}", s._replace(dbs=dbs))

    def environment(self, s):
        [w] = s.ws
        if w.pc == "new":
            yield "the writer starts", s._replace(ws=(w._replace(pc="start"),))
        elif s.budget.crash:
            yield "the writer ends", s._replace(ws=(NEW,), budget=s.budget._replace(crash=s.budget.crash - 1))
        if w.pc == "new" and s.budget.change:
            other = "A" if s.names == "AB" else "AB"
            yield f"the settings name {other}", s._replace(names=other, budget=s.budget._replace(change=s.budget.change - 1))
        for d, db in enumerate(s.dbs):
            if not db.up:
                yield f"{NAMES[d]} comes up", s._replace(dbs=put(s.dbs, d, db._replace(up=True)))
            elif d and s.budget.down:
                state = s._replace(budget=s.budget._replace(down=s.budget.down - 1))
                yield f"{NAMES[d]} goes down", state._replace(dbs=put(s.dbs, d, db._replace(up=False)))

    def broken(self, s):
        [w] = s.ws
        for db, name in zip(s.dbs, NAMES):
            if len(set(db.rows)) != len(db.rows):
                return f"2: duplicate row in {name}"
            if name in w.halted and not (self.c.routes == "AB" and self.c.budget.change):
                return f"9: {name} is halted, and was never out of the settings"
        return "a partition's batch fails for ever, and with it all others" if w.pc == "raised" else None

    def is_well(self, s):
        return all(db.up for db in s.dbs)

    def unfinished(self, s):
        [w] = s.ws
        if w.pc == "halted":
            return None if set(s.plan.names) - set(s.names) else "halted, and every name is known"
        for d, (db, name) in enumerate(zip(s.dbs, NAMES)):
            waits = {o for m in s.marks[d] for o in m[2]} if name not in s.names else set()
            lost = {o for o in range(s.group) if name in s.due[o]} - set(db.rows) - waits
            if lost and name not in w.halted:
                return f"1: {sorted(lost)} skipped in silence in {name}"
        return None if s.group == self.end else f"stuck at group offset {s.group}"


#: owner: (cluster, name) or None; ledger: by cluster, for each has topics of its own: (next, epoch) or None
P = namedtuple("P", "owner ledger rows marks ws budget")
PW = namedtuple("PW", "pc mine at to ok halted")


class TwoOwners:
    """Each Onramp has two events, each of which is for all the names that it has for the database."""

    RULES = OWNER_RULES

    def __init__(self, config, rules):
        self.c, self.rules = config, frozenset(rules)

    def has(self, rule):
        return rule in self.rules

    def initial(self):
        foreign = (0, 7) if self.c.sizes else None  # from before databases had owners
        return P(None, (None, foreign), frozenset(), frozenset(),
                 tuple(PW("new", 3 + 2 * n, 0, 0, (), ()) for n in range(len(self.c.routes))), self.c.budget)

    def protocol(self, s):
        for n, w in enumerate(s.ws):
            def go(label, state=s, n=n, **change):
                return f"W{n + 1} {label}", state._replace(ws=put(state.ws, n, state.ws[n]._replace(**change)))
            if w.pc == "idle":
                yield from self.idle(s, n, go)
            elif w.pc == "land":
                yield from self.lands(s, n, go)

    def idle(self, s, n, go):
        w = s.ws[n]
        if not self.has("claimed_only") and any(row and row[1] > w.mine for row in s.ledger):
            yield go("is fenced", pc="dead")
            return
        for name in self.c.routes[n]:
            if name not in w.ok + w.halted:
                yield self.claims(s, n, name, go)
        if len(w.ok + w.halted) == len(self.c.routes[n]) and w.at < 2:
            yield go(f"plans {w.at}", pc="land", to=0)

    def claims(self, s, n, name, go):
        w, me, row = s.ws[n], (n, name), s.ledger[n]
        owner = s.owner if s.owner and self.has("owner_once") else me
        if self.has("owner_checked") and owner != me:
            return go(f"halts {name}: the database belongs to {owner}", halted=(*w.halted, name))
        state = s._replace(owner=owner, ledger=put(s.ledger, n, (row[0] if row else 0, w.mine)))
        return go(f"claims {name}", state, ok=(*w.ok, name))

    def lands(self, s, n, go):
        """Name by name, a transaction each."""
        w, names = s.ws[n], self.c.routes[n]
        if w.to == len(names):
            yield go(f"commits {w.at + 1}", pc="idle", at=w.at + 1)
            return
        name, (at, epoch) = names[w.to], s.ledger[n] or (0, 0)
        if name in w.halted:
            yield go(f"diverts {w.at} of {name}", s._replace(marks=s.marks | {(n, name, w.at)}), to=w.to + 1)
        elif at > w.at:
            yield go(f"finds {w.at} settled in {name}", to=w.to + 1)
        else:
            state = s._replace(rows=s.rows | {(n, name, w.at)}, ledger=put(s.ledger, n, (w.at + 1, epoch)))
            yield go(f"lands {w.at} in {name}", state, to=w.to + 1)

    def environment(self, s):
        for n, w in enumerate(s.ws):
            if w.pc == "new":
                yield f"W{n + 1} starts", s._replace(ws=put(s.ws, n, w._replace(pc="idle")))

    def is_well(self, s):
        return all(w.pc == "idle" for w in s.ws)

    def broken(self, _):
        return None

    def unfinished(self, s):
        every = {(n, name, o) for n, names in enumerate(self.c.routes) for name in names for o in (0, 1)}
        lost = every - s.rows - s.marks
        whose = {(n, name) for n, name, _ in s.rows}
        if lost:
            return f"1: {sorted(lost)} skipped in silence"
        return None if len(whose) == 1 else f"rows of {sorted(whose)} in one database"
