#!/bin/bash
# Stand-in for the entry point of apache/kafka: KAFKA_LOG_DIRS becomes log.dirs, the folder is formatted once.
set -eu
config=/opt/kafka/config/server.properties
env | grep '^KAFKA_' | grep -v '^KAFKA_HEAP_OPTS=' | while IFS='=' read -r name value; do
  name=${name#KAFKA_}
  name=${name,,}
  echo "${name//_/.}=$value"
done > "$config"
java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format --cluster-id "$CLUSTER_ID" --config "$config" --ignore-formatted
exec java ${KAFKA_HEAP_OPTS:-} -XX:+UseG1GC -cp '/opt/kafka/libs/*' kafka.Kafka "$config"
