#!/bin/bash
# Stand-in for the entry point of postgres: the same variables, the same steps as root and as postgres.
set -eu
export PATH=/usr/lib/postgresql/15/bin:$PATH PGDATA=/var/lib/postgresql/18/docker
if [ "$(id -u)" = 0 ]; then
  if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then
    POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
    export POSTGRES_PASSWORD
  fi
  mkdir -p "$PGDATA"
  chmod 700 "$PGDATA"
  find /var/lib/postgresql /run/postgresql ! -user postgres -exec chown postgres '{}' +
  exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb -U "$POSTGRES_USER" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") --auth-host=scram-sha-256 \
    --auth-local=trust --encoding=UTF8 -D "$PGDATA"
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  echo 'host replication all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  pg_ctl -D "$PGDATA" -o "-c listen_addresses=''" -w start
  createdb -U "$POSTGRES_USER" -h /run/postgresql "$POSTGRES_DB"
  pg_ctl -D "$PGDATA" -w stop
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' "$@"
