"""Faults in lifecycle."""

from sabotage import Saboteur

SABOTEURS: dict[str, Saboteur] = {}
