FROM python:3.11.14-slim-bookworm
RUN apt-get update && apt-get install --yes --no-install-recommends prometheus wget && rm -rf /var/lib/apt/lists/*
# The user, folder and arguments of Prometheus' image.
RUN mkdir /prometheus && chown nobody /prometheus
USER nobody
VOLUME ["/prometheus"]
ENTRYPOINT ["prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
