"""Decisions as pure functions: no I/O, no clock, no SQL."""
