"""The tables: one module per mechanism, each with a dict `SABOTEURS`; see `sabotage`."""
