"""What is wrong with the saboteurs' tables, given what was seen of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sabotage import Saboteur

MOST_ALSO = 5
MOST_TOLD = 10


def faults_of_tables(table: Mapping[str, Saboteur], properties: Collection[str]) -> list[str]:
    """What can be said without running anything."""
    faults = [f"{id_}: no saboteur" for id_ in properties if id_ not in table]
    declared: dict[frozenset[str], str] = {}
    for id_, saboteur in table.items():
        if id_ not in properties:
            faults.append(f"{id_}: there is no such property")
        for other, reason in saboteur.also.items():
            if other not in properties:
                faults.append(f"{id_}: also {other}, which is no property")
            if other == id_:
                faults.append(f"{id_}: lists itself")
            if not reason.strip():
                faults.append(f"{id_}: also {other}, without a reason")
        if len(saboteur.also) > MOST_ALSO:
            faults.append(
                f"{id_}: fails {len(saboteur.also)} others, at most {MOST_ALSO} are allowed"
            )
        failing = frozenset({id_, *saboteur.also})
        twin = declared.setdefault(failing, id_)
        if twin != id_:
            faults.append(f"{id_}: fails exactly what the saboteur of {twin} fails")
    stateful = sum(saboteur.stateful for saboteur in table.values())
    if 2 * stateful < len(table):
        faults.append(
            f"{stateful} of {len(table)} saboteurs are stateful, at least half have to be"
        )
    return faults


def faults_of_saboteur(
    id_: str, saboteur: Saboteur, held: Collection[str], failed: Collection[str]
) -> list[str]:
    """What is wrong with one saboteur, from the properties that were run."""
    faults = []
    if id_ in held:
        faults.append(f"{id_}: its property still holds")
    elif id_ not in failed:
        faults.append(f"{id_}: its property was not run")
    unlisted = sorted(set(failed) - {id_, *saboteur.also})
    faults += [f"{id_}: also fails {other}, which is not listed" for other in unlisted[:MOST_TOLD]]
    if len(unlisted) > MOST_TOLD:
        faults.append(f"{id_}: also fails {len(unlisted) - MOST_TOLD} more, not listed either")
    faults += [
        f"{id_}: lists {other}, which holds" for other in sorted(saboteur.also) if other in held
    ]
    return faults


def faults_of_model(stateful: Collection[str], caught: Collection[str]) -> list[str]:
    """The model finds nine of ten of the stateful ones."""
    missed = sorted(set(stateful) - set(caught))
    if 10 * len(missed) <= len(stateful):
        return []
    return [f"the model misses {len(missed)} of {len(stateful)}: {', '.join(missed)}"]
