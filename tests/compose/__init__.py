"""Runs the images and docker-compose.yml on a Docker engine: `make test-compose`."""
