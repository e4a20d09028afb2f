"""Programs of torch.export before they are walked: read, their open dimensions fixed, taken apart into operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from openane.archives import check_member
from openane.errors import FormatError, GraphError, UnsupportedError
from openane.importers.torch.operators import OPERATORS
from openane.importers.torch.simulated import DECLARING, spelled_out
from openane.importers.torch.step import COMPLEX, PLACES
from openane.version import pip_line

KEPT = ("acosh", "angle", "asinh", "atan2", "bilinear", "complex", "cumprod", "einsum", "elu",
        "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine", "gelu", "hardsigmoid", "hardswish",
        "hardtanh", "hypot", "instance_norm", "leaky_relu", "linalg_cholesky", "linalg_det", "linalg_inv",
        "linalg_solve", "linear", "log1p", "matmul", "max_pool2d", "max_unpool2d", "max_unpool3d", "pixel_shuffle",
        "pixel_unshuffle", "polar", "prelu", "prod", "reflection_pad1d", "reflection_pad2d", "relu6",
        "replication_pad1d", "replication_pad2d", "roll", "rsub", "scaled_dot_product_attention", "silu", "softplus",
        "stack", "upsample_nearest3d", "upsample_trilinear3d")
"""Operators PyTorch would take apart though the graph has counterparts."""
KEPT_OF_TORCHAO = ("choose_qparams_affine", "dequantize_affine", "quantize_affine")
DECLARED_IN = {b"quantized_decomposed": (DECLARING, "torch"),
               b"torchao": ("torchao", "torchao")}
"""Names of libraries that operators in a program belong to, the module that declares them, and what installs it."""

MOST_ROUNDS = 4
"""How often operators nobody imports are taken apart: what one is made of may be another."""
Program = Any
"""A torch.export.ExportedProgram."""


def package() -> Any:
    """PyTorch. UnsupportedError where it is not installed."""
    try:
        import torch
        import torch.export
    except ImportError:
        raise UnsupportedError("PyTorch import", "needs the torch package", remedy=pip_line("torch")) from None
    return torch


def read(torch: Any, path: Path) -> Program:
    """The program of a file; FormatError where it is none. The archive is checked here: PyTorch's reader talks when it
    finds it broken."""
    try:
        with ZipFile(path) as archive:
            for about in archive.infolist():
                check_member(about, path.stat().st_size)
            broken = archive.testzip()
            stated = b"".join(archive.read(about) for about in archive.infolist() if about.filename.endswith(".json"))
        _declare(stated)
        if broken is not None:
            raise BadZipFile(f"{broken!r} does not have its checksum")
        return spelled_out(torch, torch.export.load(path))
    except UnsupportedError:
        raise
    except Exception as error:  # whatever PyTorch's reader meets
        raise FormatError(f"not a program of torch.export: {type(error).__name__}: {str(error)[:200]}") from None


def _declare(stated: bytes) -> None:
    """Declares the operators of other libraries that a program states. UnsupportedError where one is not installed."""
    for name, (module, installed_by) in DECLARED_IN.items():
        if name not in stated:
            continue
        try:
            import_module(module)
        except ImportError:
            raise UnsupportedError("PyTorch import", f"a program with operators of {name.decode()} needs the package "
                                   f"{installed_by}", remedy=f"pip install {installed_by}") from None


def _decompositions(torch: Any, program: Program) -> Any:
    """PyTorch's table without the operators kept."""
    table = torch.export.default_decompositions()
    packets = [getattr(torch.ops.aten, name, None) for name in KEPT]
    called = " ".join(str(node.target) for node in program.graph_module.graph.nodes)
    packets += [getattr(torch.ops.torchao, name) for name in KEPT_OF_TORCHAO if f"torchao.{name}" in called]
    for packet in packets:
        for overload in packet.overloads() if packet is not None else ():
            table.pop(getattr(packet, overload), None)
    return table


def taken_apart(torch: Any, program: Program) -> Program:
    """The program in operators that are imported: those that are not, by PyTorch's own definition where it has one."""
    table = _decompositions(torch, program)
    try:
        program = program.run_decompositions(table)
    except Exception as error:  # whatever PyTorch meets in its own program
        raise UnsupportedError("PyTorch program", "PyTorch cannot take its operators apart",
                               found=f"{type(error).__name__}: {str(error).strip()[:120]}",
                               remedy="write the function with other operators, without assignments to parts of "
                                      "tensors") from None
    known = torch._decomp.decomposition_table
    for _ in range(MOST_ROUNDS):
        others = {node.target for node in _computed(program) if node.target in known and _unknown(node.target)}
        if not others:
            break
        further = {target: known[target] for target in others}
        apart = _helped(program, _with(table, further))  # all of them: each for itself takes long, and most help
        if apart is None:
            further = {target: known[target] for target in others if len(others) > 1
                       and _helped(program, _with(table, {target: known[target]})) is not None}
            if not further:
                break
            apart = program.run_decompositions(_with(table, further))
        table, program = _with(table, further), apart
    return program


def _unknown(target: Any) -> bool:
    name = target._schema.name.removeprefix("aten::")
    return not {name, COMPLEX + name, PLACES + name} & OPERATORS.keys()


def _with(table: Any, further: Mapping[Any, Any]) -> Any:
    """A table of PyTorch's with more operators."""
    more = table.copy()
    more.update(further)
    return more


def _helped(program: Program, table: Any) -> Program | None:
    """The program taken apart by PyTorch's definitions of a table, where these are made of the library's others, rather
    than of their names again among the primitives; None otherwise."""
    try:
        apart = program.run_decompositions(table)
    except Exception:  # PyTorch takes some apart into what it does not take itself
        return None
    known = all(node.target.namespace != "prims" or not _unknown(node.target) for node in _computed(apart))
    return apart if known else None


def _computed(program: Program) -> list[Any]:
    """The nodes that call operators on what depends on the inputs: all else is known when the program is imported."""
    signature = program.graph_signature
    written = set(signature.buffers_to_mutate.values())
    inputs = {*signature.user_inputs,
              *(name for name, target in signature.inputs_to_buffers.items() if target in written)}
    found: list[Any] = []
    for node in program.graph_module.graph.nodes:
        if not inputs.isdisjoint(each.name for each in node.all_input_nodes):
            inputs.add(node.name)
            if hasattr(node.target, "_schema"):
                found.append(node)
    return found


def needed(nodes: Iterable[Any]) -> set[str]:
    """The names of the nodes outputs are computed from: not those that only check what PyTorch assumed."""
    every = list(nodes)
    found = {each.name for node in every if node.op == "output" for each in node.all_input_nodes}
    for node in reversed(every):
        if node.name in found:
            found.update(each.name for each in node.all_input_nodes)
    return found


def with_shapes(torch: Any, program: Program, shapes: Mapping[str, Sequence[int]]) -> Program:
    """The program with its open dimensions fixed by the shapes of inputs, by exporting it again; itself where it has
    none. GraphError when a shape does not fit what the program states, UnsupportedError where a dimension stays open.
    """
    inputs = [node for node in program.graph_module.graph.nodes
              if node.op == "placeholder" and node.name in program.graph_signature.user_inputs]
    open_inputs = [node for node in inputs if _open(node)]
    if not open_inputs:
        return program
    sizes = _sizes(program, open_inputs, shapes)
    leaves = iter([torch.zeros(_fixed(node, sizes, shapes), dtype=node.meta["val"].dtype)
                   if hasattr(node.meta.get("val"), "shape") else node.meta.get("val") for node in inputs])
    flat = [next(leaves) if getattr(spec.arg, "name", None) in program.graph_signature.user_inputs
            else getattr(spec.arg, "value", None) for spec in program.graph_signature.input_specs
            if spec.kind.name == "USER_INPUT"]
    given, keywords = torch.utils._pytree.tree_unflatten(flat, program.call_spec.in_spec)
    try:
        again = torch.export.export(program.module(), given, keywords, strict=False)
    except Exception as error:  # whatever PyTorch finds against these shapes
        raise GraphError(f"the program does not take these shapes: {type(error).__name__}: "
                         f"{str(error).strip()[:300]}") from None
    return again


def _open(node: Any) -> bool:
    return any(not isinstance(extent, int) for extent in getattr(node.meta.get("val"), "shape", ()))


def _sizes(program: Program, inputs: Sequence[Any], shapes: Mapping[str, Sequence[int]]) -> dict[Any, int]:
    """What each open dimension is, by its symbol. A shape that is stated for one input fixes the dimensions others
    share with it."""
    sizes: dict[Any, int] = {}
    for node in inputs:
        shape, wanted = shapes.get(node.name), node.meta["val"].shape
        if shape is None:
            continue
        if len(shape) != len(wanted):
            raise GraphError(f"shape {list(shape)} for input {node.name!r}: the program states "
                             f"{[str(extent) for extent in wanted]}")
        for extent, stated in zip(shape, wanted, strict=True):
            symbol = getattr(getattr(stated, "node", None), "expr", None)
            if symbol is None or not symbol.is_Symbol:
                continue
            bounds = program.range_constraints.get(symbol)
            if bounds is not None and not bounds.lower <= extent <= bounds.upper:
                raise GraphError(f"shape {list(shape)} for input {node.name!r}: {symbol} is {bounds.lower} to "
                                 f"{bounds.upper} in this program, found {extent}")
            if sizes.setdefault(symbol, int(extent)) != extent:
                raise GraphError(f"shape {list(shape)} for input {node.name!r}: {symbol} is {sizes[symbol]} elsewhere, "
                                 f"found {extent}")
    return sizes


def _fixed(node: Any, sizes: Mapping[Any, int], shapes: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    """The shape of an input, each extent computed from the symbols that are known."""
    found = []
    for stated in node.meta["val"].shape:
        extent = stated if isinstance(stated, int) else stated.node.expr.subs(sizes)
        if not isinstance(extent, int) and not extent.is_Integer:
            raise UnsupportedError(f"PyTorch input {node.name!r}", "every dimension has a fixed size when the model is "
                                   "compiled", found=[str(each) for each in node.meta["val"].shape],
                                   remedy=f"give its shape: load_graph(..., shapes={{{node.name!r}: shape}}), or "
                                          f"--shape {node.name}=1x3x224x224")
        found.append(int(extent))
    if node.name in shapes and tuple(shapes[node.name]) != tuple(found):
        raise GraphError(f"shape {list(shapes[node.name])} for input {node.name!r}: the program states "
                         f"{[str(each) for each in node.meta['val'].shape]}, which makes {found}")
    return tuple(found)
