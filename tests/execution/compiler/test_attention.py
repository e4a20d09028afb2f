"""scaled_dot_product_attention and einsum against their references."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openane.compiler import compile
from openane.errors import GraphError, UnsupportedError
from openane.ops.build import GraphBuilder

FEW = settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
ATTENTION = "scaled_dot_product_attention"


def attention(leading, target, source, size, values, mask=None):
    """Inputs query, key, value, and a mask that is a (dtype, shape) input or constant data."""
    builder = GraphBuilder()
    operands = {name: builder.input(name, "fp16", (*leading, *shape)) for name, shape in
                (("query", (target, size)), ("key", (source, size)), ("value", (source, values)))}
    if isinstance(mask, tuple):
        operands["attn_mask"] = builder.input("mask", *mask)
    elif mask is not None:
        operands["attn_mask"] = builder.constant(mask)
    return builder.finish({"y": builder.single(ATTENTION, **operands)})


@FEW
@given(leading=st.lists(st.integers(1, 3), min_size=1, max_size=3), target=st.integers(1, 9), source=st.integers(1, 9),
       size=st.sampled_from([4, 16]), values=st.sampled_from([5, 16]), data=st.data(),
       kind=st.sampled_from(["none", "bool", "fp16", "constant bool", "constant fp16"]))
def test_attention_with_any_mask(hold, leading, target, source, size, values, data, kind):
    full = (*leading, target, source)
    keep = data.draw(st.tuples(*[st.booleans()] * (len(full) - 1)))
    shape = (*(e if k else 1 for e, k in zip(full[:-1], keep, strict=True)), source)
    shape = shape[data.draw(st.integers(0, len(shape) - 1)):]
    rng = np.random.default_rng(source)
    allowed = rng.random(shape) < 0.6
    allowed[..., 0] = True
    added = np.where(allowed, rng.uniform(-1, 1, shape), -np.inf).astype(np.float16)
    mask = {"none": None, "bool": ("bool", shape), "fp16": ("fp16", shape), "constant bool": allowed,
            "constant fp16": added}[kind]
    inputs = {"bool": {"mask": allowed}, "fp16": {"mask": added}}.get(kind)
    hold(attention(leading, target, source, size, values, mask), inputs, absolute=6e-3, relative=6e-3)


@pytest.mark.parametrize("constant", [False, True])
def test_rows_in_which_nobody_takes_part_give_the_mean(hold, constant):
    allowed = np.ones((6, 8), bool)
    allowed[2] = False
    graph = attention((1, 2), 6, 8, 16, 16, allowed if constant else ("bool", (6, 8)))
    hold(graph, None if constant else {"mask": allowed}, low=-0.5, high=0.5, absolute=6e-3, relative=6e-3)


def test_large_scores_do_not_overflow(hold):
    hold(attention((1,), 4, 6, 64, 8), low=-20, high=20, absolute=0.3, relative=2e-2)


def test_the_scale_goes_into_the_projection():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 16))
    query = builder.single("linear", x=x, weight=np.eye(16))
    model = compile(builder.finish({"y": builder.single(ATTENTION, query=query, key=x, value=x)}))
    assert next(entry.reason for entry in model.report if ATTENTION in entry.operation) == "as matmul, softmax"


@pytest.mark.parametrize(("change", "sentence"), [
    ({"key": (1, 2, 5, 4)}, "embedding of query"), ({"key": (1, 3, 5, 8)}, "leading dimensions of query"),
    ({"value": (1, 2, 6, 8)}, "sequence of key"), ({"attn_mask": (3, 5)}, "must broadcast|must be 4 or 1"),
])
def test_shapes_that_do_not_fit(change, sentence):
    builder = GraphBuilder()
    shapes = {"query": (1, 2, 4, 8), "key": (1, 2, 5, 8), "value": (1, 2, 5, 8), **change}
    with pytest.raises(GraphError, match=sentence):
        builder.single(ATTENTION, **{name: builder.input(name, "fp16", shape) for name, shape in shapes.items()})


EQUATIONS = [
    ("nchw,nwhu->nchu", "nh"), ("chw,whr->chr", "h"), ("bhqd,bhkd->bhqk", ""), ("ij,jk->ik", ""), ("ij,kj->ki", ""),
    ("i,j->ij", ""), ("ab,ab->", ""), ("ab,ab->a", ""), ("abx,cb->ac", ""), ("ab,b->ab", ""), ("abcd,abce->abde", ""),
    ("abc,abd->cabd", ""), ("ijb,jkb->ikb", ""),
]


@FEW
@given(equation=st.sampled_from(EQUATIONS), extents=st.lists(st.integers(1, 6), min_size=8, max_size=8), data=st.data())
def test_products_of_named_dimensions(hold, equation, extents, data):
    text, repeats = equation
    size = dict(zip(sorted(set(text) - set(",->")), extents, strict=False))
    terms = text.partition("->")[0].split(",")
    one = data.draw(st.sets(st.sampled_from(repeats))) if repeats else set()
    side = data.draw(st.integers(0, 1))
    builder = GraphBuilder()
    values = tuple(builder.input(f"x{i}", "fp16", tuple(1 if letter in one and i == side else size[letter]
                                                        for letter in term)) for i, term in enumerate(terms))
    graph = builder.finish({"y": builder.single("einsum", values=values, equation=text)})
    hold(graph, absolute=8e-3, relative=5e-3)


def test_summed_letters_may_repeat_a_single_element(hold):
    builder = GraphBuilder()
    values = (builder.input("a", "fp16", (3, 1)), builder.input("b", "fp16", (5, 4)))
    hold(builder.finish({"y": builder.single("einsum", values=values, equation="ij,jk->ik")}), absolute=8e-3)


@pytest.mark.parametrize(("equation", "sentence"), [
    ("ii,ij->j", "each by its own letter"), ("ij,jk", "'->'"), ("ij->i", "two terms"), ("...j,jk->k", "letters"),
    ("ij,kl->ik", "agree|letter"), ("ij,jk->iz", "letters of the operands"), ("ij,jk->ii", "each once"),
])
def test_equations_without_a_meaning(equation, sentence):
    builder = GraphBuilder()
    values = (builder.input("a", "fp16", (3, 4)), builder.input("b", "fp16", (4, 5)))
    if equation == "ij,kl->ik":
        builder.single("einsum", values=values, equation=equation)
        return
    with pytest.raises(GraphError, match=sentence):
        builder.single("einsum", values=values, equation=equation)


def test_too_many_batch_letters_that_repeat_are_refused():
    builder = GraphBuilder()
    values = (builder.input("a", "fp16", (2, 2, 2, 1, 3)), builder.input("b", "fp16", (2, 2, 2, 2, 3)))
    graph = builder.finish({"y": builder.single("einsum", values=values, equation="abcde,abcde->abcd")})
    with pytest.raises(UnsupportedError, match="at most 3 letters"):
        compile(graph)
