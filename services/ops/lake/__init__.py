"""The lake for operators: facts about its tables, SQL queries, and the audit of rows against Kafka."""
