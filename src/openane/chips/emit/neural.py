"""The register fields of a neural-engine operation: mode of accumulation, post stage, coefficients, kernel DMA."""

from __future__ import annotations

from functools import lru_cache

from openane.chips.emit.apart import apart_fields, section_slots
from openane.chips.emit.operands import shape_fields, stored, window_fields
from openane.chips.emit.patches import second_of_product, turned_lanes
from openane.chips.emit.policy import Policy
from openane.engine import (
    Activation,
    ChannelMaximum,
    ChannelProduct,
    Coefficients,
    CoefficientSection,
    Convolution,
    DType,
    MatrixProduct,
    NeuralOperation,
    Packing,
    PassThrough,
)
from openane.errors import ProgramError
from openane.registers import Fields
from openane.rounding import ceil_div, round_up


@lru_cache(maxsize=8)
def stream_fields(cores: int) -> tuple[tuple[str, str, str], ...]:
    """The fields that enable each core's stream, and say where it lies and how long it is."""
    return tuple((f"KernelDMA.CoeffDMAConfig[{core}].En", f"KernelDMA.CoeffBaseAddr[{core}].Addr",
                  f"KernelDMA.CoeffBfrSize[{core}].Size") for core in range(cores))


def only_section(coefficients: Coefficients) -> CoefficientSection:
    """The section that holds all of an operation's coefficients. ProgramError where they lie in several."""
    if len(coefficients.sections) != 1:
        raise ProgramError(f"a core reads all coefficients of a task from one stream, not from {coefficients}")
    return coefficients.sections[0]


def neural_fields(operation: NeuralOperation, policy: Policy) -> Fields:
    """Rule: one source, one result; coefficients, accumulation mode and post stage in the NE block."""
    source, result = operation.source, operation.result
    if source.shape[0] != result.shape[0]:
        raise ProgramError(f"source and result must have the same number of groups, not {source} and {result}")
    coefficients = operation.coefficients
    lanes = turned_lanes(operation, policy.patches)
    cores = active_cores(operation, policy.limits.cores) if lanes == 1 else (policy.limits.cores - 1).bit_length()
    post = operation.post
    if (post.activation is Activation.TABLE) != (coefficients is not None and coefficients.table is not None):
        raise ProgramError("a table activation needs a table in the coefficients, and only then")
    fields: Fields = {
        **shape_fields(result.shape, "Out"), **window_fields((1, 1, 1), (1, 1, 1), (0, 0, 0)),
        "Common.TaskInfo.NEEn": 1, "Common.Cfg.Sources": 1, "Common.Cfg.ActiveNE": cores,
        "Header.Bases.ENE": cores + 1,
        "L2.L2Cfg.InputReLU": int(operation.input_relu),
        "NE.KernelCfg.KernelFmt": "fp16" if source.dtype is DType.FLOAT16 else "uint8",
        "NE.KernelCfg.PalettizeBits": policy.idle.palette_bits, "NE.MACCfg.En": 1,
        "NE.MACCfg.BinaryPoint": policy.idle.binary_point if source.dtype is DType.FLOAT16 else 0,
        "NE.MACCfg.NonlinearMode": str(post.activation), "NE.MACCfg.NoKernel": 1,
        "NE.AccBias.AccBias": post.bias, "NE.PostScale.PostScale": post.scale, "Common.GroupConvCfg.UnicastCin": 1,
        "Common.ConvCfg.OCGSize": 0,
    }
    fields |= _coefficient_fields(coefficients, policy) | _mode(operation)
    if lanes > 1:
        fields |= {"Common.ConvCfg.OCGSize": lanes.bit_length() - 1, "Common.GroupConvCfg.UnicastCin": lanes}
    if policy.frames is not None:
        fields["Common.Cfg.FillLowerNE"] = int(lanes > 1 or isinstance(operation, MatrixProduct))
        if isinstance(operation, MatrixProduct) and coefficients is not None:
            size = policy.limits.cores * coefficients.lanes * source.shape[1] * source.dtype.size
            fields["KernelDMA.KernelOCGStride.Stride"] = round_up(size, policy.limits.coefficients.alignment)
        if second_of_product(operation):
            fields |= policy.frames.product[operation.source.shape[4] > policy.patches.small_side]
    return fields



def active_cores(operation: NeuralOperation, cores: int) -> int:
    """Rule: log2 (rounded up) of the cores at work: one for every block of lanes of a weighted result; for
    others one for every channel of the result as it is stored, as it is computed where one is stored."""
    channels, coefficients = operation.result.shape[1], operation.coefficients
    if coefficients is not None and coefficients.weights:
        channels = ceil_div(channels, coefficients.lanes)
    else:
        kept = stored(operation.result, "the result", may_swap=True, may_broadcast=True).extents[1]
        channels = kept if kept > 1 else channels
    return (min(cores, channels) - 1).bit_length()


def _mode(operation: NeuralOperation) -> Fields:  # decisions: one case for each kind of operation, with what it needs
    source, result = operation.source, operation.result
    if isinstance(operation, Convolution):
        if operation.unicast and source.shape[1] != operation.unicast * result.shape[1]:
            raise ProgramError(f"unicast {operation.unicast} needs that many source channels per result channel, "
                               f"not {source.shape[1]} for {result.shape[1]}")
        return {"NE.MACCfg.OpMode": "multiply_accumulate", "Common.GroupConvCfg.UnicastEn": int(operation.unicast > 0),
                "Common.GroupConvCfg.UnicastCin": operation.unicast or 1,
                "NE.KernelCfg.GroupKernelReuse": int(operation.shared),
                **window_fields(operation.kernel, operation.stride, operation.padding)}
    if isinstance(operation, MatrixProduct):
        if operation.coefficients is None or not operation.coefficients.runtime:
            raise ProgramError("a matrix product needs coefficients marked runtime")
        # groups share runtime coefficients, or have their own, as with constant ones (inferred)
        return {"NE.MACCfg.OpMode": "multiply_accumulate", "NE.KernelCfg.RuntimeKernel": 1,
                "NE.KernelCfg.GroupKernelReuse": int(source.shape[0] > 1 and not operation.grouped)}
    if isinstance(operation, ChannelMaximum):
        if source.shape[1] != operation.channels * result.shape[1]:
            raise ProgramError(f"a maximum over {operation.channels} channels needs that many per result channel")
        return {"NE.MACCfg.OpMode": "max", "Common.GroupConvCfg.UnicastEn": 1,
                "Common.GroupConvCfg.UnicastCin": operation.channels, "L2.L2Cfg.PaddingMode": "minus_infinity"}
    if isinstance(operation, ChannelProduct):
        if source.shape[1] != 2 * result.shape[1]:
            raise ProgramError("a product of channels needs two per result channel")
        return {"NE.MACCfg.OpMode": "product", "Common.GroupConvCfg.UnicastEn": 1,
                "Common.GroupConvCfg.UnicastCin": 2, "Common.GroupConvCfg.ElemMultMode": 1, "Common.DPE.Category": 2}
    if not isinstance(operation, PassThrough) or source.shape != result.shape:
        raise ProgramError(f"a pass-through keeps the extents: {source} -> {result}")
    return {"NE.MACCfg.OpMode": "pass_through", "Common.GroupConvCfg.UnicastEn": 1}


def _coefficient_fields(coefficients: Coefficients | None, policy: Policy) -> Fields:
    if coefficients is None:
        return {}
    if coefficients.packing is Packing.PALETTE:
        raise ProgramError("palettised coefficients have no described encoding", register="NE.KernelCfg")
    apart = policy.limits.coefficients.table_apart
    slots: Fields = section_slots(coefficients) if apart else {
        "Header.KernelBases.KBase0": only_section(coefficients).slot, "Header.KernelBases.KBase0En": 1}
    return {**slots, "NE.MACCfg.NoKernel": int(coefficients.weights is None),
            "NE.MACCfg.BiasRow": int(coefficients.bias is not None),
            "NE.KernelCfg.SparseFmt": int(coefficients.packing is Packing.SPARSE),
            "NE.KernelCfg.RuntimeKernel": int(coefficients.runtime or (apart and coefficients.table is not None)),
            "Common.ConvCfg.OCGSize": coefficients.lanes.bit_length() - 1}


def kernel_dma_fields(coefficients: Coefficients | None, policy: Policy) -> Fields:
    """Rule: one cache hint on every stream register; unused streams state a length of their own. Where streams lie is
    said by `addresses`."""
    if policy.limits.coefficients.table_apart:
        return apart_fields(coefficients, policy)
    idle, streams = policy.idle, stream_fields(policy.limits.cores)
    fields: Fields = {f"KernelDMA.{kind}DMAConfig[{i}].CacheHint": policy.hints.coefficients
                      for kind, count in (("Coeff", len(streams)), ("Aux", idle.auxiliary_streams))
                      for i in range(count)}
    fields |= {f"KernelDMA.AuxBfrSize[{i}].Size": idle.unused_stream for i in range(idle.auxiliary_streams)}
    if coefficients is None:
        return fields
    fields |= idle_stream_sizes(policy)
    fields |= {"KernelDMA.Control.Kernels": 1, "KernelDMA.Control.Sparse": int(coefficients.packing is Packing.SPARSE)}
    for core, _, size in only_section(coefficients).streams.parts:
        if not 0 <= core < len(streams):
            raise ProgramError(f"a stream belongs to one of {len(streams)} cores, not to core {core}")
        enable, _, length = streams[core]
        fields[enable], fields[length] = 1, size
    return fields


def idle_stream_sizes(policy: Policy) -> Fields:
    """What the registers of streams that are not in use state."""
    return {size: policy.idle.unused_stream for _, _, size in stream_fields(policy.limits.cores)}
