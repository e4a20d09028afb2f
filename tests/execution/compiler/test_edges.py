"""Ports, outputs and graphs at the edges of what is allowed, and refusals that say what would pass."""

import numpy as np
import pytest
from support.sealing import reseal

from openane.compiler import Model, Where, compile
from openane.errors import FormatError, GraphError, UnsupportedError
from openane.graph import Graph, Node, TensorType, Value
from openane.ops.build import GraphBuilder


def test_output_that_is_an_input(compare):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 3))
    compare(builder.finish({"same": x, "twice": builder.single("mul", x=x, y=np.float16(2))}), absolute=0, relative=0)


def test_several_names_for_one_result(compare):
    builder = GraphBuilder()
    y = builder.single("relu", x=builder.input("x", "fp16", (2, 3, 5)))
    compare(builder.finish({"a": y, "b": y, "c": builder.single("reshape", x=y, shape=[30])}), absolute=0, relative=0)


def test_output_that_others_read(compare):
    builder = GraphBuilder()
    y = builder.single("relu", x=builder.input("x", "fp16", (1, 4, 6, 6)))
    z = builder.single("max_pool", x=y, kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid")
    compare(builder.finish({"y": y, "z": builder.single("relu", x=z)}), absolute=0, relative=0)


def test_constant_output(compare):
    builder = GraphBuilder()
    builder.input("x", "fp16", (4,))
    compare(builder.finish({"c": builder.constant(np.arange(6, dtype=np.float16).reshape(2, 3))}), absolute=0)


def test_scalars_and_rank_five(compare):
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", ()), builder.input("y", "fp16", (2, 3, 1, 4, 5))
    compare(builder.finish({"r": builder.single("mul", x=y, y=x), "s": builder.single("tanh", x=x)}), absolute=2e-3)


def test_fp32_models_run_in_fp16_and_say_so(compare):
    builder = GraphBuilder()
    x = builder.input("x", "fp32", (2, 20))
    y = builder.single("linear", x=x, weight=np.eye(20, dtype=np.float32))
    model = compare(builder.finish({"y": builder.single("cast", x=y, dtype="fp16")}))
    assert model.inputs[0].converted
    assert not model.outputs[0].converted
    assert [entry.operation for entry in model.report if entry.where is Where.PORT] == ["port 'x'"]


def test_operands_used_twice(compare):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 6, 8, 8))
    relu = builder.single("relu", x=x)
    total = builder.single("add", x=relu, y=x)
    product = builder.single("mul", x=total, y=total)
    clamped = builder.single("relu", x=builder.single("sub", x=product, y=relu))
    compare(builder.finish({"y": clamped, "t": total}), absolute=4e-3)


def test_relu_of_each_operand_is_fused(compare):
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (3, 40)), builder.input("y", "fp16", (40,))
    both = builder.single("sub", x=builder.single("relu", x=x), y=builder.single("relu", x=y))
    model = compare(builder.finish({"z": builder.single("relu", x=both)}), absolute=1e-3)
    assert len(model.program.tasks) == 1


def test_reshapes_between_convolution_and_activation_fuse(compare):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 6, 6))
    y = builder.single("conv", x=x, weight=np.full((8, 4, 1, 1), 0.25, np.float16))
    y = builder.single("relu", x=builder.single("reshape", x=y, shape=[8, 36]))
    model = compare(builder.finish({"y": y}))
    assert len(model.program.tasks) == 1


def test_ports_take_the_form_of_the_reshape_behind_them(compare):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4 * 7 * 9))
    y = builder.single("relu", x=builder.single("reshape", x=x, shape=[1, 4, 7, 9]))
    model = compare(builder.finish({"y": builder.single("reshape", x=y, shape=[7, 36])}), absolute=0, relative=0)
    assert len(model.program.tasks) == 1


def test_every_violation_is_named():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 8, 6, 6))
    narrow = builder.single("local_response_norm", "narrow", x=x, size=2)
    flat = builder.single("local_response_norm", "flat", x=x, size=3, k=0.0)
    with pytest.raises(UnsupportedError) as caught:
        compile(builder.finish({"a": narrow, "b": flat}))
    for said in ("'narrow'", "size must be odd", "'flat'", "k must be more than 0"):
        assert said in str(caught.value)


@pytest.mark.parametrize(("dtype", "shape"), [("int64", (3,)), ("fp64", (3,)), ("fp16", (1, 1, 1, 1, 1, 2))])
def test_ports_the_engine_has_not(dtype, shape):
    builder = GraphBuilder()
    builder.input("x", dtype, shape)
    y = builder.single("relu", x=builder.input("z", "fp16", (3,)))
    with pytest.raises(UnsupportedError, match="port 'x'"):
        compile(builder.finish({"y": y}))


def test_refusals_before_compiling():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (3,))
    with pytest.raises(UnsupportedError, match="h99"):
        compile(builder.finish({"y": builder.single("relu", x=x)}), target="h99")
    value = Value("z", TensorType("fp16", (3,)))
    with pytest.raises(GraphError, match="made by no node"):
        compile(Graph((), (), (value,)))
    with pytest.raises(GraphError, match="no outputs"):
        compile(Graph((value,), (), ()))


def test_too_many_ports():
    builder = GraphBuilder()
    values = [builder.input(f"x{i}", "fp16", (3,)) for i in range(40)]
    with pytest.raises(UnsupportedError, match="slot"):
        compile(builder.finish({"y": builder.single("concat", values=values, axis=0)}))


def test_bundles_are_folders_of_their_own(single, tmp_path):
    model = compile(single("relu", (2, 3)))
    model.save(tmp_path / "m.ane")
    model.save(tmp_path / "m.ane")
    (tmp_path / "file.ane").write_text("mine")
    for place in (tmp_path, tmp_path / "file.ane", tmp_path / "model.onnx", tmp_path / "model.HWX"):
        with pytest.raises(GraphError, match=r"NAME\.ane"):
            model.save(place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.ane", "m.ane"]


def test_models_print_without_their_weights(single):
    model = compile(single("linear", (2, 300), weight=np.ones((40, 300), np.float16)))
    for shown in (model, model.graph, model.program):
        assert len(repr(shown)) < 300
        assert "main" in repr(shown)


def test_an_unknown_operation_is_named_with_its_source():
    x, y = (Value(name, TensorType("fp16", (3,))) for name in "xy")
    with pytest.raises(UnsupportedError, match=r"^tanhh 'z' \(from line 5\): .*not described\nhint: .*tanh"):
        compile(Graph((x,), (Node("tanhh", {"x": x}, (y,), "z", "line 5"),), (y,)))


def test_refusals_say_what_is_known():
    assert str(UnsupportedError("op", "rule")) == "op: rule"
    assert str(UnsupportedError("op", "rule", found=3)) == "op: rule (found 3)"
    full = UnsupportedError("op", "rule", limit=2, found=3, remedy="less")
    assert str(full) == "op: rule (limit 2, found 3)\nhint: less"
    builder = GraphBuilder()
    norm = builder.single("local_response_norm", x=builder.input("x", "fp16", (1, 8, 6, 6)), size=4)
    with pytest.raises(UnsupportedError, match=r"size must be odd.*size=.* 4"):
        compile(builder.finish({"y": norm}))


@pytest.mark.parametrize("damage", ["missing", "text", "version", "ports", "program"])
def test_damaged_bundles_are_format_errors(single, tmp_path, damage):
    path = tmp_path / "m.ane"
    compile(single("relu", (2, 3))).save(path)
    manifest = path / "manifest.json"
    if damage == "missing":
        (path / "model.mil").unlink()
    elif damage == "program":
        (path / "programs" / "0.hwx").write_bytes(b"nothing")
    else:
        text = manifest.read_text()
        manifest.write_text({"text": "{", "version": text.replace('"version": 2', '"version": 1'),
                             "ports": text.replace('"inputs"', '"imports"')}[damage])
    reseal(path)
    with pytest.raises(FormatError):
        Model.load(path)


@pytest.mark.parametrize("kind", ["conv", "linear", "depthwise"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("after", ["relu", "tanh", "exp", "leaky_relu", "sigmoid_hard"])
def test_activations_fuse_behind_weights(compare, kind, bias, after):
    rng = np.random.default_rng(2)
    builder = GraphBuilder()
    vector = rng.standard_normal(20).astype(np.float16) / 4 if bias else None
    if kind == "linear":
        x = builder.input("x", "fp16", (3, 40))
        y = builder.single("linear", x=x, weight=rng.standard_normal((20, 40)).astype(np.float16) / 8, bias=vector)
    else:
        groups = 20 if kind == "depthwise" else 1
        x = builder.input("x", "fp16", (2, 20, 5, 6))
        weight = rng.standard_normal((20, 20 // groups, 3, 3)).astype(np.float16) / 8
        y = builder.single("conv", x=x, weight=weight, bias=vector, groups=groups, pad_type="same")
    settings = {"leaky_relu": {"alpha": 0.25}, "sigmoid_hard": {"alpha": 0.25, "beta": 0.5}}.get(after, {})
    y = builder.single("mul", x=y, y=np.float16(0.5))
    model = compare(builder.finish({"y": builder.single(after, x=y, **settings)}), absolute=6e-3, relative=6e-3)
    own = [entry for entry in model.report if entry.where is Where.ENGINE]
    scaled = after in ("exp", "sigmoid_hard")
    assert len(own) == (2 if scaled and bias else 1)


def test_many_operations_stay_fast(compare):
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (75, 2, 20, 8)), builder.input("y", "fp16", (75, 1, 8, 4))
    model = compare(builder.finish({"z": builder.single("matmul", x=x, y=y)}), absolute=2e-2)
    assert len(model.program.tasks) >= 300  # matrices that repeat are multiplied one by one
