"""Operators' decisions about halts and holds, tables and topics."""
