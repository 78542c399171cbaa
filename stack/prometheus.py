"""Prometheus on this machine: installed or fetched, with the rules of deploy/, for the stack or a test.

No service depends on it: the services only answer /metrics. `python -m stack.prometheus` fetches it.
"""

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from stack import debian
from stack.errors import UnavailableError
from stack.part_process import PartProcess, answers_ok
from stack.ports import LOOPBACK, free_port
from stack.processes import Command, wait_for

READY_SECONDS: Final = 60.0
RULES: Final = Path(__file__).resolve().parent.parent / "deploy/prometheus/rules"
PORT: Final = 9090
#: The job names of the services in the rules and dashboards of deploy/.
JOB_GATEWAY: Final = "onramp-gateway"
JOB_WRITER: Final = "onramp-writer"
JOB_AGENT: Final = "onramp-agent"
JOB_TRACER: Final = "onramp-tracer"
JOB_TRANSFORM: Final = "onramp-transform"
JOB_LAKE: Final = "onramp-lake"
JOB_COMPACTION: Final = "onramp-compaction"
_PACKAGE: Final = "prometheus"
_KNOWN: Final[Mapping[str, str]] = {
    "prometheus_2.42.0+ds-5+deb12u1_amd64.deb": (
        "81d59a24fce84f7fbe97a45a4f2914b6a5881b5cd1db2a6a0e129e515e1a5f55"
    ),
}
_FIX: Final = "Put prometheus and promtool on the PATH (https://prometheus.io/download)."


@dataclass(frozen=True, slots=True)
class Programs:
    """The two programs of Prometheus."""

    prometheus: Path
    promtool: Path


def find_programs(given: Path | None = None) -> Programs:
    """Return the programs in the `given` folder; without one from the PATH, else from the cache.

    Raises:
        UnavailableError: they are not there.
    """
    if given is not None:
        return _programs_in(given)
    found = shutil.which("prometheus"), shutil.which("promtool")
    if found[0] and found[1]:
        return Programs(Path(found[0]), Path(found[1]))
    if folder := debian.unpacked(_PACKAGE):
        return _programs_in(folder / "usr/bin")
    raise UnavailableError("This machine has no Prometheus.", fix=f"{_FIX} `make prometheus` fetches it.")


def ensure_programs(given: Path | None = None) -> Programs:
    """Return the programs, fetching Debian's package where there are none.

    Raises:
        UnavailableError: they are not there and cannot be fetched.
    """
    try:
        return find_programs(given)
    except UnavailableError:
        if given is not None:
            raise
        return _programs_in(debian.ensure_package(_PACKAGE, _KNOWN, fix=_FIX) / "usr/bin")


def _programs_in(folder: Path) -> Programs:
    programs = Programs(folder / "prometheus", folder / "promtool")
    for program in (programs.prometheus, programs.promtool):
        if not program.is_file():
            raise UnavailableError(f"There is no {program}.", fix=_FIX)
    return programs


class Prometheus(PartProcess):
    """One Prometheus server that scrapes services of this machine and evaluates rules."""

    def __init__(
        self,
        data_dir: Path,
        targets: Mapping[str, str],
        *,
        programs: Programs,
        port: int | None = None,
        rules: Path = RULES,
        seconds: int = 5,
    ) -> None:
        """Describe the server; nothing is written or started before `start`.

        Args:
            data_dir: where its data, its configuration and its log live.
            targets: the services' addresses by job.
            programs: what to run.
            port: the port on loopback, None for a free one.
            rules: the folder of the rules.
            seconds: how often it scrapes and evaluates.
        """
        super().__init__("Prometheus")
        self._dir = data_dir.absolute()
        self._targets = targets
        self._program = programs.prometheus
        self._port = port
        self._rules = rules
        self._seconds = seconds

    @property
    def url(self) -> str:
        """The server's address, once it has been started."""
        return f"http://{LOOPBACK}:{self._port}"

    def start(self) -> None:
        """Write the configuration and start the server."""
        self._dir.mkdir(parents=True, exist_ok=True)
        self._port = self._port or free_port()
        # JSON is YAML too, and quotes every path as it must be.
        (self._dir / "prometheus.yml").write_text(json.dumps(self._configuration(), indent=2), "utf-8")
        self._run(self._command())

    def wait_ready(self) -> None:
        """Wait until the server reports that it is ready.

        Raises:
            StackError: it ended or the time ran out; with the end of its log.
        """
        said = f"{self.url}/-/ready does not answer 200"
        wait_for(self._is_ready, self._started(), READY_SECONDS, waiting_for=said)

    def _is_ready(self) -> bool:
        return self._port is not None and answers_ok(self._port, "/-/ready")

    def _configuration(self) -> dict[str, object]:
        every = f"{self._seconds}s"
        return {
            "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
            "rule_files": [str(self._rules / "*.yml")],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [urlsplit(url).netloc]}]}
                for job, url in self._targets.items()
            ],
        }

    def _command(self) -> Command:
        argv = [
            str(self._program),
            f"--config.file={self._dir / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._dir / 'data'}",
            f"--web.listen-address={LOOPBACK}:{self._port}",
        ]
        web = self._program.parent.parent / "share/prometheus/web"
        if web.is_dir() and web.parts[:2] != ("/", "usr"):
            # Debian's build reads its pages below /usr, where nothing was installed.
            argv.append(f"--web.local-assets={web}")
        return Command(name="prometheus", argv=argv, log=self._dir / "prometheus.log", cwd=self._dir)


if __name__ == "__main__":
    sys.exit(debian.fetch(lambda: ensure_programs().prometheus))
