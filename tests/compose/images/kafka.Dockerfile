FROM python:3.11.14-slim-bookworm
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/*
# The user, folders and owners of Apache's image.
RUN useradd --uid 1000 appuser && mkdir -p /opt/kafka/config /var/lib/kafka/data && chown -R appuser /opt/kafka /var/lib/kafka
COPY jars /opt/kafka/libs
COPY --chmod=755 kafka-entrypoint.sh /entrypoint.sh
USER appuser
VOLUME ["/var/lib/kafka/data"]
CMD ["/entrypoint.sh"]
