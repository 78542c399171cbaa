"""`python -m loadtest.cdc_load ORDER`: transactions of one row at a fixed rate into a source's tables.

An open loop in a process of its own: the schedule of transactions waits for no answer.  ORDER is a JSON file:
`dsn`, `tables` (of schema `app`, as `cdc_stack` makes them), `rate` (transactions a second of all tables),
`seconds`, `clients`, `first` (an id that none has yet), `out`.  `out` becomes by table a list of `[due,
committed]`, both `time.monotonic()`.  Two of three transactions insert a row, and one updates an earlier row.
"""

import json
import sys
import threading
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg2

_INSERT: Final = "INSERT INTO app.{} (id, n, note, amount) VALUES (%s, %s, %s, %s)"
_UPDATE: Final = "UPDATE app.{0} SET n = n + 1, at = clock_timestamp() WHERE id = %s"
_NOTE: Final = "a note about this row, which is as long as notes usually are, no. {}"
_START_SECONDS: Final = 0.5

Times = dict[str, list[tuple[float, float]]]


def main() -> None:
    """Send what the order says."""
    order = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    times: list[Times] = [defaultdict(list) for _ in range(order["clients"])]
    began = time.monotonic() + _START_SECONDS
    threads = [
        threading.Thread(target=_send, args=(order, client, began, of_one))
        for client, of_one in enumerate(times)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together: Times = defaultdict(list)
    for of_one in times:
        for table, lines in of_one.items():
            together[table] += lines
    Path(order["out"]).write_text(json.dumps(together), "utf-8")


def _send(order: dict[str, Any], client: int, began: float, times: Times) -> None:
    tables, known = order["tables"], dict[str, int]()
    with closing(psycopg2.connect(order["dsn"])) as conn, conn.cursor() as cursor:
        conn.autocommit = True
        for number in range(client, int(order["rate"] * order["seconds"]), order["clients"]):
            due = began + number / order["rate"]
            if (left := due - time.monotonic()) > 0:
                time.sleep(left)
            turn, place = divmod(number, len(tables))
            table = tables[place]
            if table in known and turn // order["clients"] % 3 == 0:
                cursor.execute(_UPDATE.format(table), (known[table],))
            else:
                known[table] = order["first"] + number
                row = (known[table], number, _NOTE.format(number), number / 100)
                cursor.execute(_INSERT.format(table), row)
            times[table].append((due, time.monotonic()))


if __name__ == "__main__":
    main()
