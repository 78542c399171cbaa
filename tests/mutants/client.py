"""`python -m tests.mutants.client`: the client's protections, each removed once."""

from typing import Final

from tests.mutants.machine import Mutant, run

BATCHES: Final = "tests/unit/clients/test_batches.py"
CLIENT: Final = "tests/unit/clients/test_client.py"
PROXIES: Final = "tests/unit/clients/test_proxies.py"
FORKS: Final = "tests/unit/clients/test_forks.py"
SPOOL: Final = "tests/unit/clients/test_spool.py"
LAMBDA: Final = "tests/unit/clients/test_lambda_handler.py"
MANY: Final = "tests/unit/clients/test_many.py"
ASYNCIO: Final = "tests/unit/clients/test_asyncio.py"

QUICK: Final = (
    Mutant("the bound of bytes", "outbox.py", "size + more > self._batch_bytes", "False", BATCHES),
    Mutant("the bound of events", "outbox.py", "len(events) < self.bounds.batch_events", "True", BATCHES),
    Mutant("halving", "verdicts.py", "half = len(events) // 2", "half = 0", BATCHES),
    Mutant("smaller batches after a 413", "outbox.py", "min(self._batch_bytes, size // 2)", "10**9", BATCHES),
    Mutant("a verdict of one alone", "verdicts.py", "if len(events) == 1:", "if len(events) == 0:", BATCHES),
    Mutant("retries that lie apart", "outbox.py", "(batch.wake, next(", "(0.0, next(", BATCHES),
    Mutant("callbacks that raise", "telling.py", "except BaseException", "except KeyError", BATCHES),
    Mutant("our own problems alone", "verdicts.py", "startswith(_PROBLEMS)", "startswith('')", PROXIES),
    Mutant("surely not on Kafka", "verdicts.py", "_FINAL and _is_problem(document)", "_FINAL", PROXIES),
    Mutant("the event's own id", "verdicts.py", 'and result.get("id") == event.id', "", PROXIES),
    Mutant(
        "keys that are rotated",
        "verdicts.py",
        "frozenset({400, 413,",
        "frozenset({401, 403, 400, 413,",
        PROXIES,
    ),
    Mutant("grants that come", "verdicts.py", "frozenset({401, 403, 404", "frozenset({404", PROXIES),
    Mutant(
        "an end to every answer",
        "connection.py",
        "self._sock.settimeout(self.seconds_left())\n        return",
        "return",
        PROXIES,
    ),
    Mutant(
        "a log line for each kind of trouble",
        "transport.py",
        "if kind in self._logged:",
        "if False:",
        PROXIES,
    ),
    Mutant(
        "reason in Retry-After",
        "backoff.py",
        "return min(float(asked), MOST_RETRY_AFTER)",
        "return float(asked)",
        PROXIES,
    ),
    Mutant("the server's clock", "backoff.py", "now if server_now is None else server_now", "now", PROXIES),
    Mutant("jitter", "backoff.py", "random.uniform(0, backoff)", "0.0", PROXIES),
    Mutant("a connection that is made again", "connection.py", "if not reused:", "if True:", CLIENT),
    Mutant("who answers early", "connection.py", "return self._answered_early(connection)", "raise", CLIENT),
    Mutant("an end of close", "client.py", "self.flush(timeout_seconds)", "self.flush()", CLIENT),
    Mutant("threads that end at close", "client.py", "self._transport.abort()", "pass", CLIENT),
    Mutant("the bound of the queue", "outbox.py", "self.pending < self.bounds.events and", "", CLIENT),
    Mutant("the bound of its bytes", "outbox.py", "self._bytes + size <= self.bounds.bytes", "True", CLIENT),
    Mutant("room for each", "client.py", "if not self._is_free_for(len(body)):", "if not index:", MANY),
    Mutant("who was taken", "sending.py", "return QueueFullError(message, taken)", "return error", MANY),
    Mutant(
        "a full disk in the midst", "client.py", "(QueueFullError, OSError) as", "QueueFullError as", MANY
    ),
    Mutant("the loop's turn", "aio.py", "await asyncio.sleep(0)", "pass", MANY),
    Mutant("only what is left", "aio.py", "events = events[len(full.taken) :]", "pass", MANY),
    Mutant("the end of a process", "process_exit.py", "atexit.register(close)", "pass", CLIENT),
    Mutant("the prefix", "target.py", 'self.url.path.rstrip("/") + _PATH', "_PATH", CLIENT),
    Mutant("the proxy", "target.py", "first = self.proxy or self.url", "first = self.url", CLIENT),
    Mutant("threads of a child", "client.py", "self._spool.forget()\n        self._reset()", "pass", FORKS),
    Mutant(
        "connections of a child", "forks.py", "_held.pop().reset_in_child()", "_held.pop().release()", FORKS
    ),
    Mutant("the end of a child", "process_exit.py", "util.Finalize(", "(lambda *_, **__: None)(", FORKS),
    Mutant(
        "the spool's lock",
        "spool_file.py",
        "fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        SPOOL,
    ),
    Mutant("checksums", "spool_lines.py", "or crc != _crc(sign, rest)", "", SPOOL),
    Mutant("crossing out", "spool_file.py", "self._write(spool_lines.settled_line(numbers))", "pass", SPOOL),
    Mutant(
        "the spool's bound",
        "spool_file.py",
        "return self.size + size <= max_bytes or not self.live",
        "return True",
        SPOOL,
    ),
    Mutant(
        "room made by what is settled", "spool_file.py", "self._rewrite()\n        return", "return", SPOOL
    ),
    Mutant("all that was left", "client.py", "if self._spool.wants_more():", "if False:", SPOOL),
    Mutant(
        "nothing is given up",
        "client.py",
        'float("inf") if spool else give_up_seconds',
        "give_up_seconds",
        SPOOL,
    ),
    Mutant(
        "a child's own file",
        "spool.py",
        "self._own = self._adopted = None\n\n    def _open",
        "pass\n\n    def _open",
        SPOOL,
    ),
    Mutant(
        "records of a stream", "lambda_handler.py", "return not record.is_of_a_stream", "return True", LAMBDA
    ),
    Mutant(
        "records that are none",
        "lambda_handler.py",
        "except (ValueError, TypeError, RecursionError)",
        "except KeyError",
        LAMBDA,
    ),
    Mutant(
        "who takes over",
        "lambda_handler.py",
        'is left to AWS", type(error).__name__, record.item)\n        return True',
        'x")\n        return False',
        LAMBDA,
    ),
    Mutant("the record's own time", "lambda_handler.py", "timestamp=timestamp", "timestamp=None", LAMBDA),
    Mutant(
        "a free loop",
        "aio.py",
        "await asyncio.to_thread(self._onramp.wait, _SLICE_SECONDS)",
        "self._onramp.wait(100)",
        ASYNCIO,
    ),
    Mutant(
        "callbacks in the loop",
        "aio.py",
        "self._loop.call_soon_threadsafe(self._tell, verdicts)",
        "self._tell(verdicts)",
        ASYNCIO,
    ),
)

if __name__ == "__main__":
    run("clients/python/onramp_client", QUICK, ())
