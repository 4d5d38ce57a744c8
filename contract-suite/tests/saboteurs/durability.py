"""Faults in durability."""

from sabotage import Saboteur

SABOTEURS: dict[str, Saboteur] = {}
