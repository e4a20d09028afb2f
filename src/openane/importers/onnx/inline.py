"""Operators that ONNX or the model defines by others: their bodies put in their place."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from openane.errors import AneError, UnsupportedError
from openane.importers.onnx.nodes import Proto

DEEPEST = 4
"""How deep operators defined by others may lie in each other."""
DOMAIN = "openane.body"
"""Domain of the functions made of ONNX's own bodies while they are inlined."""


def inlined(model: Proto, known: Collection[str], domains: Collection[str]) -> Proto:
    """The model without functions of its own, and without operators that are not `known` ones of the standard
    `domains` where ONNX states a body for them. UnsupportedError when the onnx package fails at it."""
    if not model.functions and not any(_unknown(model, known, domains)):
        return model
    names: list[str] = []
    try:
        import onnx.inliner
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        for _ in range(DEEPEST):
            names = [node.op_type for node in _unknown(model, known, domains)]
            bodies = _with_bodies(model, known, domains) if names else None
            if bodies is None:
                break
            model = onnx.inliner.inline_local_functions(bodies)
    except AneError:
        raise
    except Exception as error:  # the inliner's, the checker's and the protobuf runtime's own kinds
        raise UnsupportedError("ONNX model", "functions cannot be put in the place of their calls",
                               found=f"{', '.join(dict.fromkeys(names)) or 'local functions'}; onnx says "
                                     f"{str(error)[:200]}", remedy="export with operators of their own") from None
    return model


def _unknown(model: Proto, known: Collection[str], domains: Collection[str]) -> Iterator[Proto]:
    """Nodes outside of nested graphs that are not one of the known operators of the standard domain."""
    return (node for node in model.graph.node if node.domain not in domains or node.op_type not in known)


def _with_bodies(model: Proto, known: Collection[str], domains: Collection[str]) -> Proto | None:
    """A copy of the model in which every unknown operator that has a body calls a function of its own; None when there
    is no such operator."""
    import onnx.shape_inference
    versions = {"" if entry.domain in domains else entry.domain: entry.version for entry in model.opset_import}
    versions.setdefault("", onnx.defs.onnx_opset_version())
    if not any(_schema(node, domains, versions) for node in _unknown(model, known, domains)):
        return None
    changed = onnx.shape_inference.infer_shapes(model)
    types = _types(changed.graph)
    for count, node in enumerate(_unknown(changed, known, domains)):
        schema = _schema(node, domains, versions)
        if schema is not None:
            body = _body(node, schema, versions, types)
            body.name, body.domain = f"{node.op_type}_{count}", DOMAIN
            node.op_type, node.domain = body.name, DOMAIN
            changed.functions.append(body)
    if not any(entry.domain in domains for entry in changed.opset_import):
        changed.opset_import.append(onnx.helper.make_opsetid("", versions[""]))
    changed.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return changed


def _types(graph: Proto) -> dict[str, Proto]:
    """Types of the tensors of a graph as far as they are known."""
    import onnx.helper
    known = {tensor.name: onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
             for tensor in graph.initializer}
    return known | {port.name: port.type for port in (*graph.input, *graph.value_info, *graph.output)}


def _schema(node: Proto, domains: Collection[str], versions: Mapping[str, int]) -> Proto | None:
    """What ONNX says of a node's operator, where that includes a body in the model's opset."""
    import onnx.defs
    domain = "" if node.domain in domains else node.domain
    try:
        schema: Proto = onnx.defs.get_schema(node.op_type, versions.get(domain, 0), domain)
    except onnx.defs.SchemaError:
        return None
    bodies = (*schema.function_opset_versions, *schema.context_dependent_function_opset_versions)
    return schema if any(version <= versions[""] for version in bodies) else None


def _require_tensors(node: Proto, types: Mapping[str, Proto]) -> None:
    """UnsupportedError unless every input that a node names is a tensor of a known type: the package makes bodies of
    these types without asking whether they are there, and of sequences nothing is computed here."""
    for name in node.input:
        kind = types[name].WhichOneof("value") if name in types else None
        if name and kind != "tensor_type":
            raise UnsupportedError(f"ONNX {node.op_type} {node.name!r}", "its operands are tensors of known types",
                                   found=f"{name!r}, {kind.replace('_type', '') if kind else 'of no known type'}",
                                   remedy="export with the types of tensors, and without sequences")


def _body(node: Proto, schema: Proto, versions: Mapping[str, int], types: Mapping[str, Proto]) -> Proto:
    """ONNX's definition of one node by others. Attributes the node leaves out get their defaults."""
    import onnx
    version = versions[""]
    stated = {attribute.name for attribute in node.attribute}
    node.attribute.extend(attribute.default_value for name, attribute in schema.attributes.items()
                          if name not in stated and attribute.default_value.name)
    typed = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if typed:
        _require_tensors(node, types)
        given = [types[name].SerializeToString() if name in types else onnx.TypeProto().SerializeToString()
                 for name in node.input]
        data = schema.get_context_dependent_function_with_opset_version(max(typed), node.SerializeToString(), given)
    else:
        plain = [v for v in schema.function_opset_versions if v <= version]
        data = schema.get_function_with_opset_version(max(plain))
    body = onnx.FunctionProto()
    body.ParseFromString(data)
    known = {**versions, "": version, "ai.onnx": version}
    for entry in body.opset_import:
        entry.version = known.get(entry.domain, entry.version)
    return body
