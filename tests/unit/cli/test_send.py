"""`onramp send` trusts only the gateway's answers, preserves the order of lines, and reports a timeout."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from services.cli.app import app
from stack import addresses
from stack.dev_key import dev_key
from tests.fixtures.raw_server import Worst, page, problem, results, serving
from tests.fixtures.writer import eventually

LINES = [json.dumps({"metadata": {"id": f"e{n}"}}) for n in range(20)]


@pytest.fixture
def worst() -> Iterator[Worst]:
    with serving() as server:
        yield server


def send(url: str, *options: str) -> Result:
    return CliRunner().invoke(app, ["send", "-", "--url", url, *options], input="\n".join(LINES))


def test_a_proxys_word_is_no_verdict(worst: Worst) -> None:
    worst.first(page(404), page(200), problem(503))
    result = send(worst.url, "--batch", "5", "--wait", "100")
    assert result.exit_code == 0, result.output
    assert sorted(result.stdout.split()[::5]) == sorted(f"e{n}" for n in range(20))


def test_lines_keep_their_order_and_their_bytes(worst: Worst) -> None:
    result = send(worst.url, "--batch", "5", "--json")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [f"e{n}" for n in range(20)]
    assert b"\n".join(line for asked in worst.asked for line in asked.lines) == "\n".join(LINES).encode()
    assert len(worst.asked) == 4


def test_single_rejected_event_is_printed_and_the_command_fails(worst: Worst) -> None:
    worst.script = lambda asked: results(asked, e7="422 bad_envelope")
    result = send(worst.url)
    assert result.exit_code == 1
    assert "e7 rejected (422): bad_envelope" in result.stdout
    assert len(result.stdout.splitlines()) == 20


def test_refused_key_is_reported_without_its_secret(worst: Worst) -> None:
    worst.script = lambda _: problem(401, "unauthenticated")
    result = send(worst.url, "--wait", "0", "--key", "onramp_shop_secret")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0].startswith("e0 rejected (401): unauthenticated")
    assert "secret" not in result.output


def test_the_key_of_the_running_stack_goes_to_its_own_gateway_alone(worst: Worst, tmp_path: Path) -> None:
    key = dev_key(tmp_path)
    addresses.note(tmp_path, addresses.Addresses(gateway=worst.url))
    for options, given in (([], f"Bearer {key}"), (["--url", worst.url], None)):
        command = ["send", "--event", "a", "--data-dir", str(tmp_path), *options]
        assert CliRunner().invoke(app, command).exit_code == 0
        assert worst.asked[-1].headers.get("authorization") == given


def test_wait_that_times_out_ends_with_the_last_response(worst: Worst) -> None:
    worst.script = lambda _: problem(503)
    result = send(worst.url, "--wait", "0.2")
    assert result.exit_code == 3
    assert "answered 503: kafka_unreachable" in result.output


def test_refused_connection_is_reported() -> None:
    result = send("http://127.0.0.1:1", "--wait", "0")
    assert result.exit_code == 3
    assert "ConnectionRefusedError" in result.output


def test_invalid_url_is_refused() -> None:
    assert send("localhost:8080").exit_code == 2


def test_lines_before_an_invalid_line_are_sent(worst: Worst) -> None:
    result = CliRunner().invoke(app, ["send", "-", "--url", worst.url], input=f"{LINES[0]}\nnonsense\n")
    assert result.exit_code == 2
    assert "e0 accepted" in result.stdout


def test_piped_line_is_sent_before_the_next_line_is_complete(worst: Worst) -> None:
    reads, writes = os.pipe()
    sending = threading.Thread(
        target=CliRunner().invoke, args=(app, ["send", f"/dev/fd/{reads}", "--url", worst.url])
    )
    try:
        with os.fdopen(writes, "w") as pipe:
            pipe.write(f"{LINES[0]}\n{LINES[1][:7]}")
            pipe.flush()
            sending.start()
            eventually(lambda: worst.ids == [["e0"]])
            pipe.write(f"{LINES[1][7:]}\n\n{LINES[2]}")
        sending.join(100)
    finally:
        os.close(reads)
    assert [each for ids in worst.ids for each in ids] == ["e0", "e1", "e2"]


def test_a_line_that_is_none_is_named_by_its_number(worst: Worst, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text("\n\n".join([*LINES[:7], "nonsense", *LINES[7:]]), "utf-8")
    result = CliRunner().invoke(app, ["send", str(file), "--url", worst.url, "--batch", "2"])
    assert result.exit_code == 2
    assert "line 15 is not a JSON document" in result.output
    assert [each for ids in worst.ids for each in ids] == [f"e{n}" for n in range(7)]
