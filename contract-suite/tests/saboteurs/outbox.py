"""Faults in outbox."""

from sabotage import Saboteur

SABOTEURS: dict[str, Saboteur] = {}
