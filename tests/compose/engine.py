"""A Docker engine of Debian's packages, unpacked into the cache; Compose is built from its Go module.

Nothing is installed. The engine runs as root with a data folder of its own, and its end restores the network
rules of the machine.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from stack import debian
from stack.cache import cache_dir, locked
from stack.processes import Child, Command, wait_for

COMPOSE_VERSION: Final = "v2.40.3"
_MODULE: Final = "github.com/docker/compose/v2"
_FIX: Final = "Start a Docker engine and set DOCKER_HOST; put Compose v2 on the PATH as docker-compose."
_TABLES: Final = ("filter", "nat")
_START_SECONDS: Final = 120.0
_FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
#: Below the MTU of most virtual networks; a larger one loses the answers of registries.
_MTU: Final = "1400"


class Docker:
    """The commands `docker` and `docker-compose`, for one engine."""

    def __init__(self, docker: Path, compose: Path, env: Mapping[str, str]) -> None:
        self._docker = docker
        self._compose = compose
        self.env = {**os.environ, "DOCKER_BUILDKIT": "1", **env}

    def run(self, *arguments: str, text: str | None = None, folder: Path | None = None) -> str:
        """Run `docker` and return its output.  Raises `CalledProcessError`."""
        return self._call([str(self._docker), *arguments], text, folder)

    def compose(self, *arguments: str, text: str | None = None, folder: Path | None = None) -> str:
        """Run `docker-compose` and return its output.  Raises `CalledProcessError`."""
        return self._call([str(self._compose), *arguments], text, folder)

    def shell(self, code: str, env: Mapping[str, str], folder: Path) -> str:
        """Run commands with `docker compose`, as a page prints them; return their standard output.

        Raises `CalledProcessError`: a command failed.
        """
        with tempfile.TemporaryDirectory() as config:
            plugins = Path(config) / "cli-plugins"
            plugins.mkdir()
            (plugins / "docker-compose").symlink_to(self._compose)
            answer = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", code],
                env={**self.env, **env, "DOCKER_CONFIG": config},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        return answer.stdout

    def is_ready(self) -> bool:
        """Return whether the engine answers."""
        command = [str(self._docker), "info"]
        return subprocess.run(command, env=self.env, capture_output=True, check=False).returncode == 0

    def _call(self, command: Sequence[str], text: str | None, folder: Path | None) -> str:
        answer = subprocess.run(
            command, env=self.env, cwd=folder, input=text, stdout=subprocess.PIPE, text=True, check=True
        )
        return answer.stdout


@contextmanager
def engine(folder: Path) -> Iterator[Docker]:
    """Yield the engine that runs on this machine; without one, start one with its data in `folder`."""
    compose = _compose_program()
    if docker := shutil.which("docker"):
        running = Docker(Path(docker), compose, {})
        if running.is_ready():
            yield running
            return
    root = debian.ensure_package("docker.io", {}, fix=_FIX, has_libraries=True)
    programs = _programs(root, folder / "bin")
    socket = f"unix://{folder}/docker.sock"
    env = {
        "PATH": f"{programs}:{root}/usr/bin:{root}/usr/sbin:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": f"{root}/usr/lib/x86_64-linux-gnu",
        "XTABLES_LIBDIR": f"{root}/usr/lib/x86_64-linux-gnu/xtables",
        "DOCKER_HOST": socket,
    }
    docker_program = Docker(root / "usr/bin/docker", compose, env)
    argv = [
        str(root / "usr/sbin/dockerd"),
        "--data-root",
        str(folder / "data"),
        "--mtu",
        _MTU,
        "--host",
        socket,
    ]
    argv += ["--exec-root", str(folder / "exec"), "--pidfile", str(folder / "docker.pid")]
    daemon = Child(
        Command(name="dockerd", argv=argv, log=folder / "dockerd.log", env=env, grace_seconds=60.0)
    )
    with _restored_network(docker_program.env):
        daemon.start()
        try:
            wait_for(docker_program.is_ready, daemon, _START_SECONDS, waiting_for="dockerd does not answer")
            yield docker_program
        finally:
            daemon.stop()


def _programs(root: Path, folder: Path) -> Path:
    """Return a folder with iptables under the names that dockerd calls."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("iptables", "iptables-save", "iptables-restore", "ip6tables"):
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(root / "usr/sbin/xtables-nft-multi")
    return folder


@contextmanager
def _restored_network(env: Mapping[str, str]) -> Iterator[None]:
    """Restore the forwarding of packets and its rules at the end, and delete the engine's bridge."""
    forwarding = _FORWARDING.read_text()
    rules = {table: _iptables(env, "iptables-save", "-t", table) for table in _TABLES}
    try:
        yield
    finally:
        for table in _TABLES:
            _iptables(env, "iptables", "-t", table, "-F")
            _iptables(env, "iptables", "-t", table, "-X")
            _iptables(env, "iptables-restore", "-T", table, text=rules[table])
        if not rules["filter"].strip():
            _iptables(env, "iptables", "-P", "FORWARD", "ACCEPT")
        _FORWARDING.write_text(forwarding)
        subprocess.run(["ip", "link", "delete", "docker0"], capture_output=True, check=False)


def _iptables(env: Mapping[str, str], *command: str, text: str | None = None) -> str:
    program = shutil.which(command[0], path=env["PATH"])
    assert program, command[0]
    answer = subprocess.run(
        [program, *command[1:]], env=env, input=text, capture_output=True, text=True, check=True
    )
    return answer.stdout


def _compose_program() -> Path:
    """Return Compose v2 of the PATH or of the cache, building it with Go if both have none."""
    if found := shutil.which("docker-compose"):
        return Path(found)
    folder = cache_dir("compose")
    program = folder / f"docker-compose-{COMPOSE_VERSION}"
    with locked(folder / ".lock"):
        if not program.exists():
            _build_compose(folder, program)
    return program


def _build_compose(folder: Path, program: Path) -> None:
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -trimpath -buildvcs=false"}
    work = folder / "build"
    work.mkdir(exist_ok=True)
    # `go install` refuses a module with replacements, so its command is built as a dependency.
    (work / "go.mod").write_text("module build\n\ngo 1.24\n", "utf-8")
    target = program.with_suffix(".new")
    source = subprocess.run(
        ["go", "mod", "download", "-json", f"{_MODULE}@{COMPOSE_VERSION}"],
        cwd=work,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    module = json.loads(source.stdout)["Dir"]
    version = f"-X {_MODULE}/internal.Version={COMPOSE_VERSION}"
    command = ["go", "build", "-mod=readonly", "-ldflags", f"-s -w {version}", "-o", str(target), "./cmd"]
    subprocess.run(command, cwd=module, env={**env, "GOFLAGS": "-trimpath -buildvcs=false"}, check=True)
    target.rename(program)
    shutil.rmtree(work)


def kill_container(docker: Docker, container: str) -> None:
    """SIGKILL a container's first process, as a crash: `docker kill` would count as a manual stop."""
    pid = int(docker.run("inspect", "--format", "{{.State.Pid}}", container))
    os.kill(pid, signal.SIGKILL)
