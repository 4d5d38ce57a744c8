"""Faults in processes."""

from sabotage import Saboteur

SABOTEURS: dict[str, Saboteur] = {}
