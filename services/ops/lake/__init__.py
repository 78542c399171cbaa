"""The lake for operators: facts about its tables, their receipts, and SQL queries."""
