"""Stand-ins for base images, made of packages where no registry is reachable; the output names them.

Under the names of the Dockerfiles and of docker-compose.yml, they exist in the engine's own store alone.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from stack import debian
from stack.cache import cache_dir, locked
from stack.jars import ensure_jars
from tests.compose.engine import Docker

PYTHON: Final = "python:3.11.14-slim-bookworm"
UV: Final = "ghcr.io/astral-sh/uv:0.13.8"
KAFKA: Final = "apache/kafka:4.2.0"
POSTGRES: Final = "postgres:18.4"
PROMETHEUS: Final = "prom/prometheus:v2.42.0"
#: The stand-in of each image.
STAND_INS: Final = {
    PYTHON: "Debian bookworm with Debian's Python 3.11, by mmdebstrap",
    UV: "the program of PyPI's package uv",
    KAFKA: "the jars of stack/jars.lock, with an entry point of tests/compose/images",
    POSTGRES: "Debian's Postgres 15, with an entry point of tests/compose/images",
    PROMETHEUS: "Debian's Prometheus 2.42.0",
}
_LABEL: Final = "onramp.stand-in"
_PACKAGES: Final = "python3,python3-venv,ca-certificates,netbase,tzdata"
_FIX: Final = "Pull the base images of deploy/*.Dockerfile and docker-compose.yml."
_IMAGES: Final = Path(__file__).with_name("images")
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")


def ensure_base_images(docker: Docker) -> None:
    """Build the images that the engine lacks, and print which are stand-ins."""
    makers = {
        PYTHON: _python,
        UV: _uv,
        KAFKA: _kafka,
        POSTGRES: _postgres,
        PROMETHEUS: _prometheus,
    }
    for name, make in makers.items():
        if not _is_stand_in(docker, name):
            print(f"base image {name}: the original, in the engine's store")
            continue
        make(docker)
        print(f"base image {name}: a stand-in, {STAND_INS[name]}")


def _is_stand_in(docker: Docker, name: str) -> bool:
    """Return whether the engine has no image of this name, or one that this module has made."""
    if not docker.run("images", "--quiet", name):
        return True
    return (
        docker.run("inspect", "--format", f'{{{{index .Config.Labels "{_LABEL}"}}}}', name).strip() == "yes"
    )


def _python(docker: Docker) -> None:
    if docker.run("images", "--quiet", PYTHON):
        return  # an import is not cached, and all images are built on this one
    folder = cache_dir("compose")
    tree = folder / "bookworm.tar"
    with locked(folder / ".lock"):
        if not tree.exists():
            root = debian.ensure_package("mmdebstrap", {}, fix=_FIX)
            new = tree.with_suffix(".new.tar")
            command = [str(root / "usr/bin/mmdebstrap"), "--variant=minbase", f"--include={_PACKAGES}"]
            # This machine's certificate authorities: it may reach registries of packages through a proxy.
            command += [f"--customize-hook=copy-in {_CERTIFICATES} /etc/ssl/certs"]
            subprocess.run([*command, "bookworm", str(new)], check=True)
            new.rename(tree)
    settings = [f"SSL_CERT_FILE={_CERTIFICATES}", f"REQUESTS_CA_BUNDLE={_CERTIFICATES}"]
    changes = [each for setting in settings for each in ("--change", f"ENV {setting}")]
    changes += ["--change", f"LABEL {_LABEL}=yes"]
    docker.run("import", *changes, "--change", 'CMD ["python3"]', str(tree), PYTHON)


def _uv(docker: Docker) -> None:
    with tempfile.TemporaryDirectory() as folder:
        package = f"uv=={UV.rpartition(':')[2]}"
        pip = ["python3", "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, package]
        subprocess.run(pip, check=True)
        _build(docker, UV, "FROM scratch\nCOPY uv /uv\n", [Path(folder) / "bin/uv"])


def _kafka(docker: Docker) -> None:
    files = [*ensure_jars("broker"), _IMAGES / "kafka-entrypoint.sh"]
    _build(docker, KAFKA, (_IMAGES / "kafka.Dockerfile").read_text("utf-8"), files)


def _postgres(docker: Docker) -> None:
    files = [_IMAGES / "postgres-entrypoint.sh"]
    _build(docker, POSTGRES, (_IMAGES / "postgres.Dockerfile").read_text("utf-8"), files)


def _prometheus(docker: Docker) -> None:
    _build(docker, PROMETHEUS, (_IMAGES / "prometheus.Dockerfile").read_text("utf-8"), [])


def _build(docker: Docker, name: str, dockerfile: str, files: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        (context / "Dockerfile").write_text(dockerfile, "utf-8")
        (context / "jars").mkdir()
        for file in files:
            target = context / "jars" if file.suffix == ".jar" else context
            shutil.copy(file, target / file.name)
        docker.run("build", "--quiet", "--label", f"{_LABEL}=yes", "--tag", name, folder)
