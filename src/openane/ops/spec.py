"""What one MIL operation states about itself: operands, shape rule, rules, reference numerics, lowering, traits.

Each module of this package describes one operation (or a family that differs only in a function) and exports `OPS`,
a tuple of `Op`. `openane.ops.get_op` finds them by listing the package. Whoever works on graphs asks the record what is
true of an operation, and names none: a new operation then takes part in all that its traits allow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from openane.chips import Limits
from openane.engine import Binary, Post
from openane.engine.table import Table
from openane.graph import Node, Operand, TensorType, Value
from openane.ops.accuracy import Bound
from openane.record_classes import dataclass

REQUIRED = object()

Reference = Callable[..., tuple[np.ndarray, ...]]
"""Called with every parameter by keyword: arrays as float32 (integers as they are), strings as str, tuples of them;
what the node leaves out is the parameter's default, None when it has none."""

Rule = Callable[[Node, Limits], bool]
"""True when the node obeys; the docstring is the sentence a user reads when it does not. `{kernel_width}` and the
other names of `Limits` in it stand for the chip's number (see rules.sentence)."""

Upstream = Sequence[Value | None]
"""For each result of a node the derivative of the loss by it; None where the loss does not depend on that result."""

Gradient = Callable[[Node, Upstream, Any], Mapping[str, Operand]]
"""Given a node, what comes from upstream (never None throughout) and a builder (ops.gradients.Backward): the derivative
of the loss by each operand, of the operand's shape and element type, by the operand's name; a tuple for a variadic one.
Operands that are left out stop the gradient."""

Kind = Literal["tensor", "int32", "index", "number", "own", "bool", "string"]
"""What an operand holds: "tensor" shares the operation's element type, "index" is integers of 8, 16 or 32 bits (int32
where Python data is given), "number" real or integer (fp32), "own" a tensor of an element type
of its own, the others are exactly what they say."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One keyword operand. `const` operands must be known at compile time. `default` REQUIRED: it has none;
    None: optional without a value (or with one that depends on another operand's shape); anything else is the value
    MIL assumes. `choices`: what a function's string may be."""

    name: str
    const: bool = False
    variadic: bool = False
    default: Any = REQUIRED
    kind: Kind = "tensor"
    choices: tuple[str, ...] = ()


class OperationEvidence(StrEnum):
    """How the engine's side of an operation is known."""

    APPLE = "apple"        # Apple's compiler emits the same engine operations
    COMPOSED = "composed"  # built from engine operations that Apple's programs prove
    INFERRED = "inferred"  # some encoding in it is shown by no Apple-made program at hand
    FOLDED = "folded"      # never runs: computed when the model is compiled


Recognise = Callable[[Node, set[str], Mapping[int, Node]], tuple[Node, ...] | None]
"""Given the last of the nodes that an operation may be written out in, the names taken and the producers of values: the
nodes that replace that one, None where it is something else."""

Stage = tuple[Post, Table | None]
"""What the neural engine does to every result it makes: activation(scale * (x + bias)), with the table it reads."""

Settings = Mapping[str, Any]
"""The constant operands of a function beside x, by name: numbers, and strings."""


@dataclass(frozen=True, slots=True)
class Unary:
    """A function of one tensor, element by element: all that is known of it (unary.unary_op makes the operation).

    `function` takes float64 arrays and the parameters by keyword; `single`, where it is faster, float32 arrays. The
    engine computes it as `stage` gives it: one post stage of the neural engine; where there is none, or none for these
    settings, by `compose`: a few operations on (stages, target, x, settings), see stages.Stages. `closer` is a
    composition of less error than its table, for graphs that ask for it (accuracy.FUNCTIONS), and `fitted` a stage of
    less error, where no composition is wanted. `held`, of functions that are x times a share between 0 and 1, is
    the composition on (stages, target, x, settings, exponent) for x and a result that are held times 2^exponent: the
    operation has that as a parameter `exponent`, which is none of MIL's. `small` is a composition whose error is a
    share of the result, however small that is, for nodes with the parameter `small_results`, none of MIL's either.
    `bound` says how far that is from the function. `slope` builds the derivative from (terms, x, result, settings), see
    slopes.Terms; None: constant between its steps, so that gradients end there. `check` raises GraphError for settings
    that do not fit each other."""

    name: str
    function: Callable[..., np.ndarray]
    bound: Bound
    parameters: tuple[Parameter, ...] = ()
    stage: Callable[[Settings], Stage | None] | None = None
    compose: Callable[[Any, Any, Any, Settings], object] | None = None
    closer: Callable[[Any, Any, Any, Settings], object] | None = None
    fitted: Callable[[Settings], Stage | None] | None = None
    held: Callable[[Any, Any, Any, Settings, int], None] | None = None
    small: Callable[[Any, Any, Any, Settings], object] | None = None
    slope: Callable[[Any, Value, Value, Settings], Value | float] | None = None
    check: Callable[[Settings], None] | None = None
    single: Callable[..., np.ndarray] | None = None
    evidence: OperationEvidence = OperationEvidence.COMPOSED
    unbounded: frozenset[str] = frozenset()  # parameters that may be infinite: what they bound is then not bounded
    integers: bool = False                   # MIL has it for int32 too
    keeps_integers: bool = False             # fp16 holds its result wherever it holds x
    relu: bool = False                       # what planar operations do to what they read and to what they make
    periodic: bool = False                   # goes on beyond its bound's domain, where the engine's form means nothing
    ties: bool = False                       # numbers half-way between two results depend on how they were rounded
    enlarges: Callable[[Settings], float] | None = None  # what settings multiply the error of the table by


Affine = tuple[np.ndarray | float, np.ndarray | float]
"""Gain and offset, float64: what x becomes is gain * x + offset."""


@dataclass(frozen=True, slots=True)
class BinaryArithmetic:
    """Arithmetic of two tensors, element by element, shapes broadcast: all that is known of it (elementwise_binary
    makes the operation).

    `function` takes arrays. `slope` builds the derivatives by x and y, from (node, upstream, builder), before what was
    broadcast is summed. With a constant number in place of y `right` lowers it, in place of x `left`, given (lowering,
    target, the other operand, number, relu): False where it cannot. Of two tensors it is `planar`, of x and -y where it
    `subtracts`, or lowered by `pair` from (lowering, target, x, y). `affine` gives what a constant does to the operand
    beside it, from its numbers and whether it stands in place of y; None where that is no gain and offset."""

    name: str
    function: Callable[[np.ndarray, np.ndarray], np.ndarray]
    slope: Callable[[Node, Value, Any], tuple[Value | None, Value | None]]
    right: Callable[[Any, Any, Any, float, bool], bool]
    left: Callable[[Any, Any, Any, float, bool], bool]
    planar: Binary | None = None
    subtracts: bool = False
    pair: Callable[[Any, Any, Any, Any], None] | None = None
    affine: Callable[[np.ndarray, bool], Affine | None] | None = None
    clamps: bool = False  # its last engine operation is planar, so that it can clamp its result at 0


class Movement(StrEnum):
    """What an operation that computes nothing does with elements. All but MIX have them from the operand x."""

    SHAPE = "shape"            # every element in its order: only the shape is another
    DIMENSIONS = "dimensions"  # every element, the dimensions exchanged
    REPEATS = "repeats"        # every element, whole dimensions repeated
    ORDER = "order"            # every element, once or several times, in any order
    PART = "part"              # elements at places that are known when the model is compiled
    MIX = "mix"                # of several operands, of a padding, or at places an operand gives


@dataclass(frozen=True, slots=True)
class Product:
    """How an operation that multiplies x by weights has them, for those who fold into the weights what follows, or
    write new ones in their place.

    `axis` is the dimension of the result that counts its channels. `form` gives a node whose weights and biases are
    constants as one with the operands "weight" and "bias", the channels first in both; new constants are named after
    the name it is given. None where they are not constants. `by_channel` gives a view of such a weight and the shape of
    one number per channel, of which there are so many, that is broadcast to it."""

    axis: int
    form: Callable[[Node, str], Node | None]
    by_channel: Callable[[np.ndarray, int], tuple[np.ndarray, tuple[int, ...]]]
    channels_last: Callable[[Node], bool] = lambda node: False  # whether a node's own weight has the channels last
    kept: bool = True  # the program holds the numbers of its weights as they are, whatever they are


@dataclass(frozen=True, slots=True)
class Op:
    """A MIL operation. `infer` gives the result types from the node's operands (outputs ignored) and raises
    GraphError when they do not fit. `lower` emits engine operations (see ops.lowering). `post` says how a function of
    one tensor is the neural engine's post stage: (Post, table or None), or None when it is not. `view`: the result has
    x's elements in the same order, always or for the nodes the function accepts. `decompose` builds the operation from
    others instead of lowering it: given the node and a rewriter (ops.rewriter) it returns the results. `expand` does
    the same for an operation that is lowered as a whole: the form it is differentiated in, and runs in when operands it
    wants constant are not; None where the node has a gradient rule instead. `evidence` and `note` say how its engine
    operations are known and what users should know beside the rules. `gradient` builds the operation's part of a
    backward pass (see Gradient); None: through its decomposition or expansion if it has one, else it cannot be trained
    through. Where the gradient ends (integers, booleans, steps) the rule is ops.gradients.stopped.

    What is true of it:

    - `unary`, `arithmetic`: it is a function of single elements. `moves`: it computes nothing. `product`: it multiplies
      x by weights. `channel_affine` gives gain and offset per channel where that is all a node is.
    - `weights` names the operands that are weights where they are constants. `computed` writes a node as others that
      take weights the program computes; None where it takes them itself.
    - `channels_of` names the operands that are worth compressing where they are large constants, and says along which
      of their dimensions numbers belong together: those of an output channel, of a row of a table.
    - `recognise` finds the operation where it is written out in others, by the operation of the last node of these.
      `takes_up` names the operands that a constant factor
      of its result, and a constant added to it, can become. `merge` makes one node of it and of one that made its x.
    - `homogeneous` names the operands of a node that, multiplied by a number above 0, multiply its results by it.
    - `factors` gives, by operand, the degrees of a result that is a product of powers of operands, or a sum of such.
    - `fewer` writes a node of more dimensions than the engine has with fewer (see fewer.py), or gives None.
    - `relayout` says what the engine copies operands for, and what spares it that; `inherent` why nothing makes it
      faster.
    """

    name: str
    parameters: tuple[Parameter, ...]
    infer: Callable[[Mapping[str, Any]], tuple[TensorType, ...]]
    reference: Reference
    rules: tuple[Rule, ...] = ()
    lower: Callable[[Node, Any], None] | None = None
    post: Callable[[Node, Any], Stage | None] | None = None
    view: bool | Callable[[Node], bool] = False
    decompose: Callable[[Node, Any], tuple[Value, ...]] | None = None
    evidence: OperationEvidence = OperationEvidence.COMPOSED
    note: str = ""
    gradient: Gradient | None = None
    expand: Callable[[Node, Any], tuple[Value, ...] | None] | None = None
    unary: Unary | None = None
    arithmetic: BinaryArithmetic | None = None
    moves: Movement | None = None
    product: Product | None = None
    channel_affine: Callable[[Node], tuple[np.ndarray, np.ndarray]] | None = None
    weights: tuple[str, ...] = ()
    computed: Callable[[Node, Any], tuple[Value, ...] | None] | None = None
    channels_of: Mapping[str, Callable[[Node], int]] = field(default_factory=dict)
    recognise: Mapping[str, Recognise] = field(default_factory=dict)
    takes_up: tuple[str, ...] = ()
    merge: Callable[[Node, Node], Node | None] | None = None
    sums_products: bool = False  # in the neural engine's accumulator
    averages: Callable[[Node], int] | None = None  # so many elements of x in the accumulator, each times a constant
    normalises: bool = False     # makes a norm, or divides by one
    scores: bool = False         # makes probabilities of scores, in the order of these
    shape_only: bool = False     # reads nothing but the shape of what it is given
    stores: bool = False         # the program holds constants among its operands as they are, whatever they are
    casts: bool = False          # gives the same numbers, as far as it holds them, in another element type
    hands_on: bool = False       # an infinity in an operand is one in the result, or is multiplied by 0
    fewer: Callable[[Node, Any], tuple[Value, ...] | None] | None = None
    homogeneous: Callable[[Node], tuple[str, ...]] | None = None
    factors: Callable[[Node], Mapping[str, float]] | None = None
    positions: str = ""          # the operand that says from where in x the result is taken, or where in data it goes
    widens: tuple[str, ...] = ()  # operands that its reference takes in fp16 as well, and computes with in float32
    over: bool = False           # its reference takes memory for its result by that name, x's own if no product
    sees_bits: bool = False      # reads the bits of integers, so that all of them count
    rounds: bool = False         # rounds x to whole steps, so that digits fp16 does not hold change results
    fills_up: bool = False       # has a row for all it may find, and -1 in those behind what it found
    table_of: str = ""           # the function of one tensor whose table it contains
    relayout: tuple[str, str] | None = None
    inherent: str = ""
    named: Mapping[str, Parameter] = field(init=False, repr=False, compare=False)  # the parameters, by name

    def __post_init__(self) -> None:
        object.__setattr__(self, "named", {parameter.name: parameter for parameter in self.parameters})

    def apart(self, node: Node) -> Callable[[Node, Any], tuple[Value, ...] | None] | None:
        """What writes the node as others before anything is lowered: its decomposition, or the form that takes weights
        which the program computes, where it has some. None where the node stays."""
        if self.decompose is not None or self.computed is None:
            return self.decompose
        given = [node.operands.get(name) for name in self.weights]
        return self.computed if any(isinstance(each, Value) and not each.constant for each in given) else None

    def views(self, node: Node) -> bool:
        """Whether the node's result is its operand x, element by element, as it is stored."""
        return self.view(node) if callable(self.view) else self.view
