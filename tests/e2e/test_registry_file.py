"""`onramp up` applies onramp.yaml at each save: keys, tables and rows follow without a restart."""

import json
import secrets
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import yaml

from services.ops.registry.change import Wish, apply_file, editing
from shared.registry.key_secrets import new_key
from shared.settings import KafkaSettings
from tests.fixtures.fix_postgres import Database
from tests.fixtures.up import ROOT, StartUp, Up, post
from tests.fixtures.writer import eventually, execute, rows

KEYS = {name: new_key(name) for name in ("shop", "till", "back-office")}
ORDERS = "SELECT n, note FROM public.orders ORDER BY n"


def registry() -> dict[str, Any]:
    """Two types into tables of two databases, and three keys."""
    order = {"required": ["n"], "properties": {"n": {"type": "integer"}, "note": {"type": "string"}}}
    table = {"schema": "public", "create": True}
    return {
        "event_types": {
            "order_placed": {"schema": order, "destinations": [{**table, "table": "orders"}]},
            "refund_made": {
                "schema": {"required": ["amount"], "properties": {"amount": {"type": "number"}}},
                "destinations": [{**table, "table": "refunds", "vanity": "second"}],
            },
        },
        "keys": {name: {"hashes": [{"sha256": sha256}]} for name, (_, sha256) in KEYS.items()},
    }


class Newcomer:
    """The file, the terminal in which `onramp up` runs, and a second terminal for commands."""

    def __init__(self, run: Up, file: Path) -> None:
        self.run, self.file = run, file
        run.until("Ctrl-C stops everything")
        self.gateway = int(run.until(r"Gateway   http://127\.0\.0\.1:(\d+)").group(1))
        self.kafka = run.until(r"Kafka     (\S+)").group(1)

    def save(self, document: Any) -> None:
        self.file.write_text(document if isinstance(document, str) else yaml.safe_dump(document))

    def onramp(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "services.cli", *words, "--kafka", self.kafka]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            cwd=ROOT,
            env=self.run.environment,
        )

    def send(self, event_id: str, name: str, key: str, **payload: Any) -> int:
        return post(self.gateway, event_id, name, key, **payload)


def test_registry_file_yields_tables_and_rows_and_each_save_is_applied_or_refused(
    up: StartUp, database: Database, own_database: Database, tmp_path: Path
) -> None:
    file, wanted = tmp_path / "shop.yaml", registry()
    file.write_text(yaml.safe_dump(wanted))
    second = json.dumps({"second": own_database.dsn})
    options = ["--registry", str(file), "--dsn", database.dsn, "--databases", second]
    me = Newcomer(up("--events", "0", *options), file)
    assert "shop.yaml is in force:\n  + event_types.order_placed" in me.run.text

    shop, till = KEYS["shop"][0], KEYS["till"][0]
    assert me.send("o-1", "order_placed", shop, n=1, note="a") == 202
    assert me.send("o-2", "order_placed", shop, n="two") == 422
    assert me.send("r-1", "refund_made", till, amount=0.5) == 202
    eventually(lambda: _rows(database, ORDERS) == [(1, "a")])
    eventually(lambda: _rows(own_database, "SELECT amount::text FROM public.refunds") == [("0.5",)])

    made = me.onramp("keys", "create", "partner", "--json")
    assert made.returncode == 0, made.stderr
    partner = json.loads(made.stdout)["key"]
    eventually(lambda: me.send("o-3", "order_placed", partner, n=3) == 202)

    wanted["event_types"]["order_placed"]["schema"]["properties"]["n"] = {"type": "string"}
    me.save(wanted)  # it would reject what it took before
    me.run.until(r"shop.yaml is NOT in force.*: a schema rejects previously valid events")
    me.run.until(r"line \d+: order_placed /properties/n/type: break: ")
    assert me.send("o-4", "order_placed", shop, n=4) == 202
    me.save("event_types:\n  order_placed:\n    ownr: me\n")
    me.run.until(r"shop.yaml, line 3: event_types.order_placed.ownr: .* did you mean `owner`\?")

    wanted = registry()
    del wanted["keys"]["till"]
    wanted["event_types"]["order_placed"]["schema"]["properties"]["at"] = {"type": "string", "format": "date"}
    me.save(wanted)
    me.run.until(r"shop.yaml is in force:\n.*order_placed: schema\n  - keys.till\n  ALTER TABLE")
    eventually(lambda: me.send("r-2", "refund_made", till, amount=1) == 401)
    assert me.send("o-5", "order_placed", shop, n=5, at="2026-01-02") == 202
    assert me.send("o-6", "order_placed", partner, n=6) == 202  # no file has named this key
    dated = "SELECT n FROM public.orders WHERE at = '2026-01-02'"
    eventually(lambda: _rows(database, dated) == [(5,)])
    eventually(lambda: [n for n, _ in _rows(database, ORDERS)] == [1, 3, 4, 5, 6])

    _two_at_once(me, tmp_path)
    _a_role_without_insert(me, database, tmp_path)


def _two_at_once(me: Newcomer, folder: Path) -> None:
    """Two changes of the same state: one comes into force, the other is refused with a conflict."""
    both_read = threading.Barrier(2)

    def applied(n: int) -> str:
        file = folder / f"{n}.yaml"
        file.write_text(yaml.safe_dump({"event_types": {**registry()["event_types"], f"one_of_{n}": {}}}))
        with editing(KafkaSettings(bootstrap=me.kafka)) as editor:
            both_read.wait(60)
            return str(apply_file(editor, file, Wish()).state)

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(applied, range(2))) == ["applied", "conflict"]


def _a_role_without_insert(me: Newcomer, database: Database, folder: Path) -> None:
    role = f"lands_{secrets.token_hex(4)}"
    execute(database.dsn, f"CREATE ROLE {role} LOGIN PASSWORD 'x'; GRANT SELECT ON public.orders TO {role}")
    at = urlsplit(database.dsn)
    dsn = urlunsplit(at._replace(netloc=f"{role}:x@{at.netloc.rpartition('@')[2]}"))
    file = folder / "orders.yaml"
    orders = registry()["event_types"]["order_placed"] | {"owner": "us"}
    types = {
        "order_placed": orders,
        "order_returned": orders,
        "refund_made": {},
    }  # a new one lands there, too
    file.write_text(yaml.safe_dump({"event_types": types}))
    lacking = me.onramp("apply", str(file), "--dsn", dsn, "--accept")
    assert lacking.returncode == 1, lacking.stdout
    [grant] = [line for line in lacking.stderr.splitlines() if line.startswith("GRANT INSERT")]
    execute(database.dsn, grant)
    granted = me.onramp("apply", str(file), "--dsn", dsn, "--accept")
    assert granted.returncode == 0, granted.stderr
    execute(database.dsn, f"DROP OWNED BY {role}; DROP ROLE {role}")


def _rows(database: Database, statement: str) -> list[tuple[Any, ...]]:
    return rows(database.dsn, statement)
