# Kafka Connect with Debezium's connector for Postgres: the jars of stack/jars.lock, each with its checksum, and the
# settings of stack/connect.py, as `onramp up` runs it. Build from the project's folder:
#   docker build -f deploy/connect.Dockerfile -t onramp-connect .

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
    uv sync --locked --no-default-groups

FROM base-build AS jars
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --locked --no-default-groups --extra local
COPY shared shared
COPY stack stack
RUN ONRAMP_CACHE=/opt/cache /opt/venv/bin/python -c "from stack.jars import ensure_jars; ensure_jars('connect')"

FROM python:3.11.14-slim-bookworm
# Java 17 of the base image's own Debian release; its exact version is Debian's, so that
# security fixes arrive with a rebuild.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin onramp
COPY --from=build /opt/venv /opt/venv
COPY --from=jars /opt/cache/jars /opt/cache/jars
WORKDIR /app
COPY shared shared
COPY stack stack
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ONRAMP_CACHE=/opt/cache \
    ONRAMP_CONNECT_HOST=127.0.0.1 \
    ONRAMP_CONNECT_PORT=8083
USER 10001:10001
EXPOSE 8083
# Alive, not ready: with Kafka away the worker waits for it, and must not be restarted for it.
HEALTHCHECK --interval=10s --timeout=4s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://' + os.environ['ONRAMP_CONNECT_HOST'] + ':' + os.environ['ONRAMP_CONNECT_PORT'] + '/', timeout=3)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m", "stack.connect_worker"]
