"""What is known of a generation, in words, and the numbers Apple's files have for it."""

from __future__ import annotations

from openane.chips.weight_forms import WeightForm
from openane.record_classes import dataclass

UNKNOWN = "not known; recognised by name only"
EMITTED = "decoded, encoded and simulated"


def frames(words: int) -> str:
    """What to say of tasks that lie one after another, with a header of so many words."""
    return (f"header of {words} words; dense and sparse runs of register writes, whose heads name the base-address "
            "slots")


CARRIED = ("Convolutions but 1x1 ones as products are, pooling, reductions, norms, softmax, products of two inputs, "
           "scratch memory: H14's fields, under the names that public register maps have for them.")
"""What records of H15 to H18 show nothing of."""
OLDER = ("Pooling, and dilated, transposed and three-dimensional convolutions: H13's fields, under the names that "
         "public register maps have for them.")
"""What records of H14 show nothing of."""
SEVERAL_WEIGHTS = "Where weights begin in a program whose tasks have several: no recorded program has more than one."
BYTES = "Tensors of 8 bits: the number of their element type."
GUESSED_BYTES = ("Tensors of 8 bits: which of two digits of a word is their element type is a guess, its number "
                 "inferred.")


SHOWN = frozenset((
    "1x1 convolution", "copy", "table of a function", "elementwise, one operand", "elementwise, two operands",
    "gain and offset of each channel"))
"""Forms of operations (see engine.forms) that tasks in the records of every generation from H13 on have."""
SHOWN_EARLY = SHOWN | {
    "convolution of windows", "stride", "groups", "weights without zeros", "product of two inputs", "reduction",
    "root or reciprocal", "channels in blocks"}
"""Those of H13 and H14."""


@dataclass(frozen=True, slots=True)
class Facts:
    """`isa` is the number Apple's compiler has for the instruction set, `subtype` the CPU subtype in its files; neither
    grows with the generation. `chip` is the one that figures are given for where nobody names another. `tasks` and
    `operations` say what is known of them; `compiled`: programs are compiled for it; `driver`: the Linux driver runs
    them. `unknown_868` is what the program descriptor of its files holds there, `limited` whether a limit is stated,
    `task_events` how many events of each task are counted beside those its header names. `inferred`: of what it is
    compiled for, what no record of Apple's compiler for it shows, a sentence each. `shown` are the forms of operations
    (engine.forms) that records of it have, which is how they are known; the others are carried over. `streamed` are the
    forms of weights that its engine reads as they are, by published studies of Apple's compiler, and `folded` those
    that this compiler makes fp16 of."""

    isa: int
    subtype: int
    chip: str
    tasks: str = UNKNOWN
    operations: str = UNKNOWN
    compiled: bool = False
    driver: bool = False
    unknown_868: int = 0
    limited: bool = False
    task_events: int = 0
    inferred: tuple[str, ...] = ()
    shown: frozenset[str] = frozenset()
    streamed: frozenset[WeightForm] = frozenset()
    folded: frozenset[WeightForm] = frozenset()
