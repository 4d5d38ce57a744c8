"""The shared SQL layer: tables, ops and sessions for engines on a SQL database."""
