"""One module per revision; `alkstore-postgres sql` prints what they do."""
