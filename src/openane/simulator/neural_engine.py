"""The neural engine: which prepared task computes an operation, and its tasks without multiplications."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from openane.engine import (
    ChannelMaximum,
    ChannelProduct,
    Coefficients,
    Convolution,
    Geometry,
    MatrixProduct,
    NeuralOperation,
    Packing,
    PassThrough,
    Post,
    geometry_of,
)
from openane.errors import SimulationError
from openane.simulator.arithmetic import Mode
from openane.simulator.arithmetic.half import BLOCK, Floats
from openane.simulator.blocks import split
from openane.simulator.calls import PreparedTask, TaskCall, TaskCalls, Together
from openane.simulator.coefficients import ChangingWeights, Known, PackedWeights, plan, table_alone, unpack_sparse
from openane.simulator.context import TaskContext, Workspace
from openane.simulator.convolution import ConvolutionTask
from openane.simulator.memory import OperandArray
from openane.simulator.post import PostStage
from openane.simulator.products import product_calls
from openane.simulator.streams import ElementwiseTask, read, write
from openane.simulator.weights import ConvolutionWeights, term_order
from openane.simulator.winograd import WinogradTask, transformable


def prepare(operation: NeuralOperation, source: OperandArray, result: OperandArray,
            context: TaskContext) -> PreparedTask:
    """What executes the operation. SimulationError where shapes, coefficients or limits do not fit."""
    unweighted = isinstance(operation, Convolution) and _is_unweighted(operation, source, result)
    if isinstance(operation, (Convolution, MatrixProduct)) and not unweighted:
        return _convolution(operation, source, result, context)
    stage = _post_stage(operation, context)
    if isinstance(operation, PassThrough) or unweighted:
        return _pass_through(operation, source, result, stage, context)
    if isinstance(operation, (ChannelMaximum, ChannelProduct)):
        return ChannelTask(operation, source, result, stage, context)
    raise SimulationError(f"{context.what}: {type(operation).__name__} is not a neural-engine operation "
                          "openane simulates")


def _post_stage(operation: NeuralOperation, context: TaskContext) -> PostStage:
    """The post stage of an operation without weights."""
    coefficients = operation.coefficients
    if coefficients is None:
        return PostStage.of(operation.post, None, context.what)
    gather = plan(Geometry(1, 1, 1), coefficients, context.stores, context.chip.limits.coefficients, context.what)
    return PostStage.of(operation.post, gather.read_table(context.stores), context.what)


def _is_unweighted(operation: Convolution, source: OperandArray, result: OperandArray) -> bool:
    """Whether every output is one source element without a weight: nothing is multiplied, nothing accumulated."""
    coefficients = operation.coefficients
    bare = coefficients is None or not (coefficients.weights or coefficients.bias)
    return (bare and operation.unicast == 1 and operation.kernel == operation.stride == (1, 1, 1)
            and operation.padding == (0, 0, 0) and source.array.shape == result.array.shape)


def _pass_through(operation: NeuralOperation, source: OperandArray, result: OperandArray, stage: PostStage,
                  context: TaskContext) -> PreparedTask:
    if source.array.shape != result.array.shape:
        raise SimulationError(f"{context.what}: a pass-through keeps its shape, but the source has "
                              f"{source.array.shape} and the result {result.array.shape}")

    def compute(values: Floats) -> np.ndarray:
        return stage.apply(np.maximum(values, 0, out=values) if operation.input_relu else values)

    plain = stage.identity and not operation.input_relu
    return ElementwiseTask([source], result, None if plain else compute, context, to_even=False,
                           key=(stage, operation.input_relu))


class WeightedTask(PreparedTask):
    """A convolution or matrix product and its weights. Weights that are constants are read once, when it is executed
    first or made `ready`, and again by `reload`; those in a buffer are read whenever it is executed."""

    def __init__(self, task: ConvolutionTask, load: Callable[[], ConvolutionWeights], constant: bool) -> None:
        """`load` reads the weights as they are in memory at that time."""
        self._task, self._load, self._constant = task, load, constant
        self._weights: ConvolutionWeights | None = None

    def ready(self) -> None:
        """Reads constants that were not read yet. SimulationError, or ProgramError of a table, where they mean nothing,
        as those of a verified program do not."""
        if self._constant and self._weights is None:
            self._weights = self._load().studied()

    def execute(self) -> None:
        """Computes every tile."""
        self.ready()
        self._task.execute(self._load() if self._weights is None else self._weights)

    def calls(self, before: object) -> TaskCalls | None:
        """Those of its tiles."""
        reads, weights = list[TaskCall](), self._weights
        if isinstance(self._load, WeightReader):
            reads, weights = self._load.still()
        if weights is None or weights.single is not None or weights.stage.table is not None:
            return None
        known = before._task.bound if isinstance(before, WeightedTask) else []
        return product_calls(self._task.products(weights), weights, reads, known)

    def follow(self, before: PreparedTask | None) -> None:
        """Takes note of the task that is executed just before: None, or one of any kind."""
        known = before._task if isinstance(before, WeightedTask) else None
        if known is not self._task.before:
            self._task.before = known
            vars(self._task).pop("bound", None)  # made anew beside the other

    def reload(self) -> None:
        """Takes constants as they are in memory now. SimulationError where they mean nothing; then the weights are
        those of before."""
        if self._constant:
            self._weights = self._load().studied()


class ChannelTask(PreparedTask):
    """The largest of `channels` neighbouring channels, or the product of two."""

    def __init__(self, operation: ChannelMaximum | ChannelProduct, source: OperandArray, result: OperandArray,
                 stage: PostStage, context: TaskContext) -> None:
        self._context, self._stage = context, stage
        self._clamp = operation.input_relu
        n, c, d, h, w = source.array.shape
        maximum = isinstance(operation, ChannelMaximum)
        self._fold = np.max if maximum else np.prod
        outputs, channels = result.array.shape[1], operation.channels if isinstance(operation, ChannelMaximum) else 2
        if channels < 1 or outputs * channels > c or result.array.shape != (n, outputs, d, h, w):
            name = "maximum" if maximum else "product"
            raise SimulationError(f"{context.what}: the {name} over {channels} channels of {source.array.shape} does "
                                  f"not give {result.array.shape}")
        sn, sc, *rest = source.array.strides
        view = np.lib.stride_tricks.as_strided(source.array, (n, outputs, channels, d, h, w),
                                               (sn, sc * channels, sc, *rest), writeable=False)
        parts = split(result.array.shape, max(1, BLOCK // channels))
        self._blocks = [(view[part[0], part[1], :, part[2], part[3], part[4]], result.array[part]) for part in parts]

    def execute(self) -> None:
        """Computes every block."""
        for raw, target in self._blocks:
            values = self._context.workspace.floats(raw.shape)
            read(raw, values, self._context.report)
            if self._clamp:
                np.maximum(values, 0, out=values)
            write(self._stage.apply(self._fold(values, axis=2)), target, self._context, to_even=False)


def _convolution(operation: Convolution | MatrixProduct, source: OperandArray, result: OperandArray,
                 context: TaskContext) -> PreparedTask:
    geometry = _geometry(operation, source.array.shape, result.array.shape, context.what)
    load = _weight_loader(operation, geometry, context)
    coefficients = operation.coefficients
    constant = coefficients is None or context.memory.ranges.keys() >= {*coefficients.slots}
    products = result.array.size * geometry.rows
    transformed = (transformable(operation) and context.chip.arithmetic.winograd
                   and context.arithmetic.choose(products) is Mode.EXACT)
    kind = WinogradTask if transformed else ConvolutionTask
    return WeightedTask(kind(operation, source.array, result.array, context), load, constant)


def _geometry(operation: Convolution | MatrixProduct, source: tuple[int, ...], result: tuple[int, ...],
              what: str) -> Geometry:
    if source[0] != result[0]:
        raise SimulationError(f"{what}: source and result must have the same number of groups (N), "
                              f"not {source[0]} and {result[0]}")
    if isinstance(operation, Convolution) and min(operation.kernel) < 1:
        raise SimulationError(f"{what}: a kernel has at least one tap, not {operation.kernel}")
    if isinstance(operation, Convolution) and operation.unicast * result[1] > source[1]:
        raise SimulationError(f"{what}: {result[1]} outputs of {operation.unicast} source channels each need "
                              f"{operation.unicast * result[1]} channels, the source has {source[1]}")
    geometry = geometry_of(operation)
    assert geometry is not None, "convolutions and products have weights"
    return geometry


def _weight_loader(operation: Convolution | MatrixProduct, geometry: Geometry,
                   context: TaskContext) -> Callable[[], ConvolutionWeights]:
    """What reads weights, biases and table as they are in memory at that time."""
    coefficients, what = operation.coefficients, context.what
    order = term_order(geometry.rows, operation.kernel if isinstance(operation, Convolution) else (1, 1, 1))
    bare = coefficients is None or coefficients.weights is None
    if bare and geometry.weights > context.memory.total_size:
        raise SimulationError(f"{what}: {geometry.shape} weights of one are more than the program's memory")
    if coefficients is None or not coefficients.sections:
        ones = np.ones(geometry.shape, np.float32)
        return lambda: ConvolutionWeights.of(ones, None, PostStage.of(operation.post, None, what))
    if coefficients.packing is Packing.PALETTE:
        raise SimulationError(f"{what}: palettised coefficients are not described, so they cannot be simulated")
    if coefficients.packing is Packing.SPARSE:
        return _sparse_loader(operation, geometry, coefficients, context)
    return _gathering_loader(operation.post, geometry, coefficients, order, context, _is_column(operation, context))


def _is_column(operation: Convolution | MatrixProduct, context: TaskContext) -> bool:
    """Whether a single column is multiplied, in fast arithmetic."""
    n, channels, *extents = operation.result.shape
    plain = isinstance(operation, MatrixProduct) or (operation.kernel == (1, 1, 1) and not operation.unicast)
    products = channels * operation.source.shape[1]
    return plain and n == prod(extents) == 1 and context.arithmetic.choose(products) is Mode.FAST


def _gathering_loader(post: Post, geometry: Geometry, coefficients: Coefficients, order: np.ndarray,
                      context: TaskContext, column: bool) -> Callable[[], ConvolutionWeights]:
    stores, form, what = context.stores, context.chip.limits.coefficients, context.what
    gather = plan(geometry, coefficients, stores, form, what)
    section = coefficients.weights or coefficients.bias or coefficients.table
    assert section is not None, "there are sections"
    shared, constant = context.workspace.weights.shared, section.slot in context.memory.ranges
    changing = None if constant else gather.changing(stores(section.slot), order)
    if changing is not None and gather.table is None and gather.bias is None:
        packed = gather.packed(stores(section.slot), order) if column else None
        return WeightReader(changing, PostStage.of(post, None, what), packed, context.workspace)

    def read(store: np.ndarray) -> Known:
        weights, finite = gather.read_weights(store, order)
        return shared(weights), finite

    def gathered() -> ConvolutionWeights:
        store = stores(section.slot)
        stage = PostStage.of(post, gather.read_table(stores), what)
        packed = gather.packed(store, order) if column and constant else None
        if packed is not None and _is_enough(packed, stage, geometry, context):
            return ConvolutionWeights.late(lambda: read(store)[0], gather.read_bias(store), stage, packed)
        weights, finite = read(store) if changing is None else changing.read(context.workspace.kernels)
        return ConvolutionWeights.of(weights, gather.read_bias(store), stage, finite, packed)

    return gathered


def _is_enough(packed: PackedWeights, stage: PostStage, geometry: Geometry, context: TaskContext) -> bool:
    """Whether the loop over packed weights is there, and does but for sources that are not finite."""
    return stage.table is None and context.workspace.kernels is not None and packed.finite(geometry.rows)


class WeightReader:
    """Reads weights that come without biases and table, and change between runs."""

    def __init__(self, weights: ChangingWeights, stage: PostStage, packed: PackedWeights | None,
                 workspace: Workspace) -> None:
        """`packed` are the same where they lie, where a single column is multiplied in fast arithmetic."""
        self._weights, self._stage, self._packed, self._workspace = weights, stage, packed, workspace

    def __call__(self) -> ConvolutionWeights:
        """As they are now, or where they lie."""
        if self._packed is not None and self._workspace.kernels is not None:
            return ConvolutionWeights.late(lambda: self._weights.read(self._workspace.kernels)[0], None, self._stage,
                                           self._packed, assumed=True)
        values, finite = self._weights.read(self._workspace.kernels)
        return ConvolutionWeights.of(values, None, self._stage, finite, self._packed)

    def still(self) -> tuple[list[TaskCall], ConvolutionWeights]:
        """What reads them before every product, where that must be, and the weights these are then."""
        if self._packed is not None:
            return [], self()
        values = self._workspace.apart(self._weights.shape)
        reads = Together.of(*([call] for call in self._weights.calls(values, self._workspace.threads)))
        return [reads], ConvolutionWeights.of(values, None, self._stage, finite=True)


def _sparse_loader(operation: Convolution | MatrixProduct, geometry: Geometry, coefficients: Coefficients,
                   context: TaskContext) -> Callable[[], ConvolutionWeights]:
    stores, form, what = context.stores, context.chip.limits.coefficients, context.what
    table = plan(Geometry(1, 1, 1), table_alone(coefficients), stores, form, what)
    depth, height, width = operation.kernel if isinstance(operation, Convolution) else (1, 1, 1)
    if depth != 1:
        raise SimulationError(f"{what}: zero-skipping coefficients of kernels {depth} deep are not described")

    def unpack() -> ConvolutionWeights:
        weights, bias, finite = unpack_sparse(geometry, coefficients, stores, form, what, (height, width))
        stage = PostStage.of(operation.post, table.read_table(stores), what)
        return ConvolutionWeights.of(weights, bias, stage, finite)

    return unpack
