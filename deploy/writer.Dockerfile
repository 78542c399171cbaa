# The writer: Python, and a JRE for Spark. Build from the project's folder:
#   docker build -f deploy/writer.Dockerfile -t onramp-writer .

FROM ghcr.io/astral-sh/uv:0.13.8 AS uv

FROM python:3.11.14-slim-bookworm AS base-build
COPY --from=uv /uv /usr/local/bin/uv
ENV UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_PROJECT_ENVIRONMENT=/opt/venv \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /build
COPY pyproject.toml uv.lock ./

FROM base-build AS build
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --locked --no-default-groups --extra writer

FROM python:3.11.14-slim-bookworm
# Java 17 of the base image's own Debian release; its exact version is Debian's, so that
# security fixes arrive with a rebuild.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin onramp
# The owner of the volume of the lake's tables.
RUN install -d -o 10001 -g 10001 /lake
COPY --from=build /opt/venv /opt/venv
WORKDIR /app
COPY shared shared
COPY services/__init__.py services/__init__.py
COPY services/writer services/writer
# Transforms: the same libraries, with `--entrypoint "python -m services.transform"`.
COPY services/transform services/transform
# The lake: as the transforms, with `--entrypoint "python -m services.lake"`.
COPY services/lake services/lake
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ONRAMP_WRITER_HTTP_HOST=0.0.0.0 \
    ONRAMP_WRITER_HTTP_PORT=8081
USER 10001:10001
EXPOSE 8081
# Alive, not ready: a writer that waits for its database must not be restarted for it.
HEALTHCHECK --interval=10s --timeout=4s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['ONRAMP_WRITER_HTTP_PORT'] + '/healthz', timeout=3)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m", "services.writer"]
