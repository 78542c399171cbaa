FROM python:3.11.14-slim-bookworm
RUN apt-get update \
    && apt-get install --yes --no-install-recommends postgresql-common \
    && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \
    && apt-get install --yes --no-install-recommends postgresql-15 \
    && rm -rf /var/lib/apt/lists/* /var/lib/postgresql/* \
    && ln -s /usr/lib/postgresql/15/bin/* /usr/local/bin/
COPY --chmod=755 postgres-entrypoint.sh /entrypoint.sh
STOPSIGNAL SIGINT
VOLUME ["/var/lib/postgresql"]
ENTRYPOINT ["/entrypoint.sh"]
