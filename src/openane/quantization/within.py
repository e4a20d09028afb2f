"""Forms of layers for an error of the model, rounded in the layers' order.

Forms are chosen of weights that were rounded independently of each other. Rounded one after another, layers make good
for those before them, so that the model's error is smaller than it was chosen for: what is left allows smaller forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from openane.quantization.choosing import Chosen, ErrorOf
from openane.quantization.forms import StoredWeight

ROUNDS = 3
"""How often forms are chosen for another error, and rounded."""
ENOUGH = 0.95
"""Share of the limit that an error need not be raised from."""


def within(limit: float, choose_for: Callable[[float], Chosen], in_order: Callable[[Chosen], Chosen],
           error_of: ErrorOf, size_of: Callable[[Chosen], int]) -> dict[int, StoredWeight]:
    """The weights of least bytes whose error is at most `limit`, of those found: as chosen for it, and rounded in order
    for other errors. `choose_for` gives a weight for each layer that is to change, by its number, for an error;
    `in_order` these layers in the same forms, rounded one after another; `error_of` and `size_of` measure."""
    best, asked = dict(choose_for(limit)), limit
    seen: list[Mapping[int, str]] = [{}]
    for _ in range(ROUNDS):
        chosen = choose_for(asked)
        forms = {number: stored.form for number, stored in chosen.items()}
        if forms in seen:
            break
        seen.append(forms)
        made = dict(in_order(chosen))
        error = error_of(made)
        if error <= limit and size_of(made) <= size_of(best):
            best = made
        if ENOUGH * limit <= error <= limit or not error:
            break
        asked *= limit / error
    return best
