"""Spark for drivers: context and jobs, and the daemon that forks Python workers.  Owns pyspark."""
