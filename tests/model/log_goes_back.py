"""A truncated partition log: settled records are lost, and their offsets are assigned again.

One partition, two databases, one event at a time of which nobody knows whether it will be there
tomorrow: the log is cut (its leader epoch grows), and refilled or not; the group's offsets are lost;
a database is out; a person accepts what is lost.  An older writer goes on as a zombie.

What was read of a log that was cut since its plan is marked, because the code does not notice (see
`MISSING`): a configuration with "nothing excused" must show what comes of it, the others that nothing
else does.

A transaction, a claim and a look at Kafka are a step each; a range is diverted in one.  What
diverting and draining need beyond that is shown by the model of settling.
"""

from collections import namedtuple

RULES = {
    "cut_seen": "a partition is not read on where a later leader began below what is settled",
    "leader_kept": "the leader epoch that was planned under is kept, for whoever comes next",
    "leader_first": "it is kept before anything is planned under it",
    "ledgers_tell": "what is settled is what any ledger says, once it was seen",
    "markers_tell": "and what any marker says",
    "plans_tell": "and what was planned",
    "another_life": "an accepted cut begins another life of the partition, with ledgers, plans and markers of its own",
    "life_kept": "the life that was begun is kept, for whoever comes next",
    "below_first": "what is planned or new below a cut is settled before the partition is halted",
    "group_signed": "the group's offset names its life: of another life it is no position",
    "line_checked": "after writing its plan a writer checks that it is still the newest, also in a life of its own",
}
#: Rules that the code has not (docs/adr/0013-kafka-log-cuts.md, what remains), and what they would spare.
#: Without them a batch may read other events than it planned.  Those, and no others, may land twice once the
#: cut was accepted, and their marker takes the place of a dead writer's of the same range.
MISSING = {
    "read_checked": "what was read counts if its leader's log still reaches the range's end",
}

Budget = namedtuple("Budget", "cut refill down crash lost elect resolve twin", defaults=(0,) * 8)
#: next, epoch: of each life
Db = namedtuple("Db", "up next epoch rows")
#: by: the writer's epoch; life: 0 the topic's own, else the epoch of the writer that began it
Marker = namedtuple("Marker", "frm to life by events")
Plan = namedtuple("Plan", "frm to life by")
#: A life of the partition that a person accepted: from where, and by which writer.
Life = namedtuple("Life", "at by")
#: known: the furthest ledger seen; le: the leader epoch of its plan; seen: the group's offset, when it was read
W = namedtuple("W", "pc at life known le to mine ev ok halted seen")
#: starts: (leader epoch, first offset); led: the leader epoch that is kept, of each life; group: (offset,
#: life); owed: what the newest writer diverted; late: what was read of a log that was cut since its plan
S = namedtuple("S", "log starts led sent group epochs plans begun marks dbs ws twin owed late budget")

NEW = W("new", 0, 0, 0, 0, 0, 0, (), (False, False), False, ())
DEAD = NEW._replace(pc="dead")
NAMES = "AB"


def put(seq, index, value):
    return (*seq[:index], value, *seq[index + 1 :])


class LogGoesBack:
    """The transition relation and the invariants."""

    RULES = RULES

    def __init__(self, config, rules):
        self.c, self.rules = config, frozenset(rules)

    def has(self, rule):
        return rule in self.rules

    def initial(self):
        others = (None,) * self.c.writers
        db = Db(True, (0, *others), (0,) * (1 + self.c.writers), ())
        sent = self.c.sizes[0]
        return S(tuple(range(sent)), ((0, 0),), (0, *others), sent, (0, 0), 0, (), (), ((), ()), (db, db),
                 (NEW,) * self.c.writers, None, frozenset(), frozenset(), self.c.budget)

    def line(self, s):
        """The life that the partition goes on with: of two writers' the one of the later epoch."""
        return max((begun.by for begun in s.begun), default=0) if self.has("life_kept") else 0

    def start(self, s, life):
        return next((begun.at for begun in s.begun if begun.by == life), 0)

    def epoch(self, s):
        return s.starts[-1][0]

    def end_of(self, s, le):
        """OffsetForLeaderEpoch: where the log of `le` and those before it ends."""
        return min([start for e, start in s.starts if e > le], default=len(s.log))

    def pins(self, s, life):
        """Unfinished plans: each writer's last, which one for other partitions may replace once it is finished."""
        return [p for p in s.plans if p.life == life]

    def lost_at(self, s, w):
        """Where the log was cut below what is settled, or None."""
        settled = [w.at]
        if self.has("ledgers_tell"):
            settled.append(w.known)
        if self.has("plans_tell"):
            settled += [p.to for p in self.pins(s, w.life)]
        if self.has("markers_tell"):
            settled += [m.to for d in (0, 1) for m in self.undrained(s, d, w.life, 0)]
        kept = s.led[w.life] if self.has("leader_kept") else w.le
        end = self.end_of(s, self.epoch(s) if kept is None else kept)
        return end if self.has("cut_seen") and end < max(settled) else None

    def undrained(self, s, d, life, upto):
        """The index of markers: one takes the place of those that it covers."""
        found = []
        for m in s.marks[d]:
            if m.life == life and m.to > upto:
                found = [o for o in found if not (m.frm <= o.frm and o.to <= m.to)] + [m]
        return sorted(found, key=lambda m: m.frm)

    def covered(self, s, d, life, upto):
        at = s.dbs[d].next[life]
        for m in self.undrained(s, d, life, at):
            at = max(at, m.to) if m.frm <= at else at
        return at >= upto

    def waits(self, s, d):
        """What waits for a database, the older life first."""
        return [m for life, at in enumerate(s.dbs[d].next) for m in self.undrained(s, d, life, at or 0)]

    def writer(self, s, n):
        w, out = s.ws[n], []
        def go(label, state=s, **change):
            out.append((f"W{n + 1} {label}", state._replace(ws=put(state.ws, n, state.ws[n]._replace(**change)))))
        def die(label):
            out.append((f"W{n + 1} {label}", s._replace(ws=put(s.ws, n, DEAD))))
        newer = s.epochs > w.mine
        if w.pc == "start":
            go(f"reads group offset {s.group}", seen=s.group, pc="epoch")
        elif w.pc == "epoch":
            mine, life, (at, of) = s.epochs + 1, self.line(s), w.seen
            at = at if of == life or not self.has("group_signed") else self.start(s, life)
            go(f"takes epoch {mine}", s._replace(epochs=mine), mine=mine, life=life, at=at, pc="idle", le=self.epoch(s))
        elif w.pc == "idle":
            self.look(s, n, go)
            if newer:
                die("finds a newer writer")
            elif not w.halted and s.group != (w.at, w.life):
                go("puts the group offset back", s._replace(group=(w.at, w.life)))
            elif not w.halted and any(w.ok):
                self.plan(s, n, go)
        elif w.pc == "read" and newer and self.has("line_checked"):
            die("finds a newer writer")
        elif w.pc == "read":
            ev = s.log[w.at : w.to]
            if len(ev) < w.to - w.at:
                go("cannot read what it planned", pc="idle")
            else:
                late = s.late | set(ev[max(self.end_of(s, w.le) - w.at, 0) :])
                go("reads", s._replace(late=late), ev=ev, pc="check" if self.has("read_checked") else "land0")
        elif w.pc == "check":
            same = self.end_of(s, w.le) >= w.to
            go("has read what it planned", pc="land0") if same else go("has read what may be new", pc="idle")
        elif w.pc in ("land0", "land1"):
            self.land(s, n, int(w.pc[-1]), go, die)
        elif w.pc == "commit":
            plans = tuple(p for p in s.plans if p.by != w.mine)
            go(f"commits {w.to}", s._replace(group=(w.to, w.life), plans=plans), at=w.to, to=0, ev=(), pc="idle")
        return out

    def look(self, s, n, go):
        """Claim what is up and hear a person's word; whether there is a newer writer is asked after it."""
        w = s.ws[n]
        for d in (0, 1):
            if s.dbs[d].up and not w.ok[d]:
                self.claim(s, n, d, go)
        if w.halted:
            self.accept(s, n, go)

    def claim(self, s, n, d, go):
        w, db = s.ws[n], s.dbs[d]
        if db.epoch[w.life] > w.mine:
            return
        at = db.next[w.life]
        if at is None:
            at = self.start(s, w.life)
        db = db._replace(next=put(db.next, w.life, at), epoch=put(db.epoch, w.life, w.mine))
        state = s._replace(dbs=put(s.dbs, d, db))
        if not w.halted and not self.covered(state, d, w.life, w.at):
            go(f"halts {NAMES[d]}: its ledger is at {at}, and {w.at} are settled", state, pc="gap")
            return
        go(f"claims {NAMES[d]} at {at}", state, ok=put(w.ok, d, True), known=max(w.known, at))

    def plan(self, s, n, go):
        """The end and its leader epoch come in one answer; what is below a cut is finished first."""
        w, le, end, lost = s.ws[n], self.epoch(s), len(s.log), self.lost_at(s, s.ws[n])
        if lost is not None and (lost <= w.at or not self.has("below_first")):
            go(f"halts the partition: the log is cut at {lost}", halted=True)
            return
        end = end if lost is None else lost
        pinned = [p.to for p in reversed(self.pins(s, w.life)) if p.frm <= w.at < p.to]
        if pinned:
            ends = [min(pinned[0], end) if self.has("cut_seen") else pinned[0]]
        else:
            ends = range(w.at + 1, min([end, *(p.frm for p in self.pins(s, w.life) if p.frm > w.at)]) + 1)
        for to in ends:
            whole = lost is None
            led = put(s.led, w.life, max(s.led[w.life] or 0, le))
            state = s._replace(led=led) if whole and self.has("leader_first") else s
            plans = (*(p for p in s.plans if p.by != w.mine), Plan(w.at, to, w.life, w.mine))
            go(f"plans [{w.at},{to})", state._replace(plans=plans), to=to, le=le, pc="read")

    def land(self, s, n, d, go, die):
        w, db, name = s.ws[n], s.dbs[d], NAMES[d]
        pc = "land1" if d == 0 else "commit"
        behind = self.waits(s, d)
        if db.up and w.ok[d] and not behind:
            state, result = self.transact(s, d, w.life, w.at, w.to, w.ev, w.mine)
            if result == "fenced":
                die(f"is fenced by {name}")
                return
            go(f"commits [{w.at},{w.to}) in {name}", state, pc=pc)
            if s.budget.twin and s.twin is None:
                twin, budget = (d, w.life, w.at, w.to, w.ev, w.mine), s.budget._replace(twin=0)
                go(f"has its task for {name} run twice", state._replace(twin=twin, budget=budget), pc=pc)
        else:
            mark = Marker(w.at, w.to, w.life, w.mine, w.ev)
            owed = s.owed | ({(d, e) for e in w.ev} if w.mine == s.epochs else set())
            if s.late & set(w.ev) and "nothing excused" not in self.c.sizes:
                gone = [m for m in self.undrained(s, d, w.life, 0) if w.at <= m.frm and m.to <= w.to]
                owed -= {(d, e) for m in gone for e in m.events} - {(d, e) for e in w.ev}
            state = s._replace(marks=put(s.marks, d, (*s.marks[d], mark)), owed=owed)
            go(f"diverts [{w.at},{w.to}) of {name}", state, pc=pc, ok=w.ok if behind else put(w.ok, d, False))

    def transact(self, s, d, life, frm, to, ev, mine):
        db = s.dbs[d]
        at = db.next[life]
        if db.epoch[life] > mine:
            return s, "fenced"
        if at is None or at >= to or at < frm:
            return s, "done"
        db = db._replace(rows=db.rows + ev[at - frm :], next=put(db.next, life, to))
        return s._replace(dbs=put(s.dbs, d, db)), "done"

    def drain(self, s, n):
        w = s.ws[n]
        for d in (0, 1):
            todo = [m for m in self.waits(s, d) if m.by <= w.mine]
            if s.dbs[d].up and w.ok[d] and todo and w.pc not in ("new", "dead", "start", "epoch", "gap"):
                m = todo[0]
                state, result = self.transact(s, d, m.life, m.frm, m.to, m.events, w.mine)
                state = state if result == "done" else s._replace(ws=put(s.ws, n, DEAD))
                yield f"W{n + 1} drains [{m.frm},{m.to}) of {NAMES[d]}", state

    def accept(self, s, n, go):
        """A person does without what is lost: the partition goes on from there as another life."""
        w, at = s.ws[n], self.lost_at(s, s.ws[n])
        if s.budget.resolve != 1 or at is None or w.life:
            return
        if self.has("another_life"):
            life, state = w.mine, s._replace(begun=(*s.begun, Life(at, w.mine)))
        else:
            life, state = 0, s._replace(led=put(s.led, 0, self.epoch(s)))
        go(f"goes on from {at} as another life", state, at=at, life=life, known=0, ok=(False, False), halted=False,
           le=self.epoch(s))

    def protocol(self, s):
        for n in range(len(s.ws)):
            yield from self.writer(s, n)
            yield from self.drain(s, n)
        if s.twin:
            d, *rest = s.twin
            if s.dbs[d].up:
                yield "twin task commits", self.transact(s, d, *rest)[0]._replace(twin=None)
            yield "twin task is killed", s._replace(twin=None)

    def environment(self, s):
        b = s.budget
        def less(name, state=s):
            return state._replace(budget=b._replace(**{name: getattr(b, name) - 1}))
        for n, w in enumerate(s.ws):
            zombies = () if "no zombies" in self.c.sizes else ("idle", "read", "check", "land0", "land1", "commit")
            if w.pc == "new" and (n == 0 or s.ws[n - 1].pc in ("dead", *zombies)):
                yield f"W{n + 1} starts", s._replace(ws=put(s.ws, n, w._replace(pc="start")))
            if w.pc not in ("new", "dead") and b.crash and n + 1 < len(s.ws):
                yield f"W{n + 1} crashes", less("crash")._replace(ws=put(s.ws, n, DEAD))
        for d, (db, name) in enumerate(zip(s.dbs, NAMES)):
            if not db.up:
                ws = tuple(w._replace(ok=put(w.ok, d, False)) for w in s.ws)
                yield f"{name} comes up", s._replace(dbs=put(s.dbs, d, db._replace(up=True)), ws=ws)
            elif b.down and d == 0:
                yield f"{name} goes down", less("down")._replace(dbs=put(s.dbs, d, db._replace(up=False)))
        if b.lost:
            yield "the group's offsets are lost", less("lost")._replace(group=(0, 0))
        if b.elect:
            yield "another leader", less("elect")._replace(starts=(*s.starts, (self.epoch(s) + 1, len(s.log))))
        if b.refill and b.cut < self.c.budget.cut:
            yield "an event arrives", less("refill")._replace(log=(*s.log, s.sent), sent=s.sent + 1)
        for at in range(len(s.log)) if b.cut else ():
            kept = tuple((e, start) for e, start in s.starts if start < at) or s.starts[:0]
            grown = kept if "same leader" in self.c.sizes else (*kept, (self.epoch(s) + 1, at))
            yield f"Kafka loses what is at {at} and after it", less("cut")._replace(
                log=s.log[:at], starts=grown or ((0, 0),))
        if b.resolve > 1 and any(w.halted for w in s.ws):
            yield "a person accepts", less("resolve")

    def broken(self, s):
        for db, name in zip(s.dbs, NAMES):
            excused = s.late if "nothing excused" not in self.c.sizes else ()
            if any(db.rows.count(e) > 1 and e not in excused for e in db.rows):
                return f"2: duplicate row in {name}"
            if any(w.pc == "gap" for w in s.ws):
                return "9: a database is halted that was not restored"
        cut = s.budget.cut < self.c.budget.cut
        return "9: a partition is halted that Kafka kept" if any(w.halted for w in s.ws) and not cut else None

    def is_well(self, s):
        return all(db.up for db in s.dbs)

    def unfinished(self, s):
        """Return the fault of a final state, or None."""
        if any(w.halted for w in s.ws):
            return "halted after a person accepted" if s.budget.resolve == 1 else None
        for d, (db, name) in enumerate(zip(s.dbs, NAMES)):
            skipped = {*s.log, *(e for of, e in s.owed if of == d)} - set(db.rows)
            if skipped:
                return f"1: {sorted(skipped)} skipped in silence in {name}"
        return None if s.group[0] == len(s.log) else f"stuck at group offset {s.group[0]}"
