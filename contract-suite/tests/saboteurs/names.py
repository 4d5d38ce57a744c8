"""Faults in how names are judged."""

from sabotage import Saboteur, core

SABOTEURS = {
    "names.empty": Saboteur(
        # Blanks are spaces only: a name of other white space is taken.
        core("names:_legal", lambda real, kind, name: name if name == "\t\n" else real(kind, name)),
        also={"names.empty_tx": "transaction handles judge names by the same function"},
    ),
}
