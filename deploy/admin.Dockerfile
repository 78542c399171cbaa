# The admin service, and `onramp apply` and the other verbs that need no Spark. Build from the project's folder:
#   docker build -f deploy/admin.Dockerfile -t onramp-admin .

FROM ghcr.io/astral-sh/uv:0.13.8 AS uv

FROM python:3.11.14-slim-bookworm AS build
COPY --from=uv /uv /usr/local/bin/uv
ENV UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_PROJECT_ENVIRONMENT=/opt/venv \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /build
# The lock file alone: this layer is built again only when a dependency changes.
COPY pyproject.toml uv.lock ./
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --locked --no-default-groups --extra admin

FROM python:3.11.14-slim-bookworm
RUN useradd --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin onramp
# The owner of the volume of the lake's tables.
RUN install -d -o 10001 -g 10001 /lake
COPY --from=build /opt/venv /opt/venv
WORKDIR /app
COPY shared shared
COPY services/__init__.py services/__init__.py
COPY services/ops services/ops
COPY services/cdc services/cdc
COPY services/admin services/admin
COPY services/tracer services/tracer
# Compaction and vacuum of `onramp lake`.
COPY services/lake services/lake
COPY services/cli services/cli
COPY stack stack
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ONRAMP_ADMIN_HOST=0.0.0.0 \
    ONRAMP_ADMIN_PORT=8082
USER 10001:10001
EXPOSE 8082
# Alive, not ready: with Kafka or the database away it answers 503 and must not be restarted for it.
HEALTHCHECK --interval=10s --timeout=4s --start-period=15s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['ONRAMP_ADMIN_PORT'] + '/healthz', timeout=3)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m", "services.admin"]
