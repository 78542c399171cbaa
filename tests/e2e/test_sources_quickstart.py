"""Commands of docs/sources-quickstart.md copy a table while `onramp up` runs."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from loadtest.same_rows import differing
from stack.postgres import Postgres, binaries
from tests.fixtures.fix_postgres import FAST
from tests.fixtures.running_part import started
from tests.fixtures.up import ROOT, StartUp
from tests.fixtures.writer import eventually, execute, rows

PAGE = ROOT / "docs" / "sources-quickstart.md"
TABLES = """
    CREATE SCHEMA app;
    CREATE TABLE app.orders (id int PRIMARY KEY, note text);
    INSERT INTO app.orders SELECT n, 'before' FROM generate_series(1, 1000) n
"""


@pytest.mark.full
def test_the_pages_commands_copy_a_table_and_keep_it_equal(up: StartUp, tmp_path: Path) -> None:
    with started(Postgres(tmp_path / "source", settings=FAST)) as server:
        server.create_database("shop")
        source = server.dsn_of("shop")
        execute(source, TABLES)
        blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
        start, prepare, check, add, list_, look, resync = blocks
        assert start == "bin/onramp up --events 0\n"
        run = up("--events", "0")
        run.until("Ctrl-C stops everything")
        warehouse = run.until(r"Postgres  (\S+)").group(1)
        given = {"'postgresql://postgres@shop.example:5432/shop'": f"'{source}'"}
        given["shop.example:5432"] = f"127.0.0.1:{server.port}"
        given["postgresql://onramp:…@127.0.0.1:55432/onramp"] = warehouse

        def type_in(*blocks: str) -> subprocess.CompletedProcess[str]:
            text = "".join(blocks).replace("bin/onramp", str(ROOT / "bin/onramp"))
            for of_page, here in given.items():
                text = text.replace(of_page, here)
            env = {**run.environment, "ONRAMP_DATA_DIR": str(tmp_path / "data")}
            env["PATH"] = f"{binaries()}{os.pathsep}{os.environ['PATH']}"
            return subprocess.run(
                ["sh", "-ec", text], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
            )

        done = type_in(prepare, check, add)
        assert done.returncode == 0, done.stdout + done.stderr
        run.until(r"Source    shop: app\.\* → shop\.\*")
        eventually(lambda: type_in(list_).returncode == 0, 300)

        def is_equal() -> bool:
            return differing(source, "app.orders", warehouse, "shop.orders") == (0, 0)

        eventually(is_equal, 60)
        execute(source, "UPDATE app.orders SET note = 'after' WHERE id <= 500")
        eventually(is_equal, 60)
        assert "orders" in type_in(look).stdout
        done = type_in(resync)
        assert (done.returncode, done.stdout) == (0, "shop: re-snapshotted\n"), done.stderr
        eventually(is_equal, 60)
        assert rows(warehouse, "SELECT count(*) FROM shop.orders") == [(1000,)]
        assert "a-new-password" not in run.text
