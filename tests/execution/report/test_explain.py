"""Advice about models that were made to need it, and what happens when it is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openane as ane
from openane.cli import main
from openane.cli.hazards import hazards
from openane.cli.profile import subject_of
from openane.cli.subject import _model_subject
from openane.graph import Value
from openane.ops.build import GraphBuilder
from openane.report import NumberKind, Profile, ProfileSubject, profile
from openane.report.explain import Advice, Explanation, explain
from openane.report.places import places, verdict

KEPT = 1.25
"""A promised gain and the one that comes, at most apart by this factor."""


def compiled(build: GraphBuilder, value: Value) -> ane.Model:
    return ane.compile(build.finish({"out": value}), precision="as-is")


def made(build: GraphBuilder, value: Value, chip: str = "m1") -> Profile:
    return profile(subject_of(compiled(build, value)), chip)


def said(found: Profile, text: str) -> Advice:
    advice = explain(found).advice
    matching = [each for each in advice if text in each.remedy or any(text in r.what for r in each.reasons)]
    assert len(matching) == 1, advice
    return matching[0]


def weights(*shape: int) -> np.ndarray:
    size = np.sqrt(np.prod(shape[1:]))
    drawn: np.ndarray = (np.random.default_rng(0).standard_normal(shape) / size).astype(np.float16)
    return drawn


def kept(advice: Advice, before: float, after: float) -> None:
    """The gain is what taking the advice brings, in seconds."""
    assert advice.gain
    assert advice.gain / KEPT <= before - after <= advice.gain * KEPT, (advice, before - after)


class TestAdviceIsTaken:
    """The model is changed as advised and profiled again."""

    def convolution(self, channels: int, batch: int = 1, shape: tuple[int, int] = (64, 64),
                    inputs: int = 256) -> Profile:
        build = GraphBuilder()
        x = build.input("x", "fp16", (batch, inputs, *shape))
        return made(build, build.single("conv", x=x, weight=weights(channels, inputs, 3, 3), pad_type="same"))

    @pytest.mark.parametrize("channels", [257, 272])
    def test_channels_over_a_pass_in_a_task_of_their_own(self, channels: int) -> None:
        over = self.convolution(channels)
        advice = said(over, "output channels take")
        assert f"the last {channels - 256} of {channels}" in advice.reasons[0].what
        kept(advice, over.engine_seconds, self.convolution(256).engine_seconds)

    def test_full_passes_need_no_advice(self) -> None:
        assert not [each for each in explain(self.convolution(256)).advice if "passes" in each.remedy]

    def test_batches_share_weights(self) -> None:
        one = self.convolution(512, shape=(7, 7), inputs=512)
        four = self.convolution(512, 4, (7, 7), 512)
        kept(said(one, "waits for its weights"), one.engine_seconds, four.engine_seconds / 4)

    def test_long_rows(self) -> None:
        short = self.convolution(64, shape=(512, 5), inputs=64)
        kept(said(short, "short of 64 bytes"), short.engine_seconds,
             self.convolution(64, shape=(5, 512), inputs=64).engine_seconds)

    def test_a_function_as_one_operation(self) -> None:
        def block(steps: bool) -> Profile:
            build = GraphBuilder()
            x = build.single("linear", x=build.input("x", "fp16", (128, 192)), weight=weights(768, 192))
            if steps:
                inner = build.single("erf", x=build.single("mul", x=x, y=np.float16(0.7071)))
                x = build.single("mul", x=build.single("mul", x=x, y=build.single("add", x=inner, y=np.float16(1))),
                                 y=np.float16(0.5))
            else:
                x = build.single("gelu", x=x, mode="EXACT")
            return made(build, build.single("linear", x=x, weight=weights(192, 768)))
        steps = block(True)
        kept(said(steps, "a function of one variable"), steps.engine_seconds, block(False).engine_seconds)

    def test_rows_of_products_padded(self) -> None:
        def scores(length: int) -> Profile:
            build = GraphBuilder()
            x = build.input("x", "fp16", (1, 4, length, 64))
            query, key = (build.single("add", x=x, y=np.float16(one)) for one in (1, 2))
            return made(build, build.single("matmul", x=query, y=key, transpose_y=True))

        def products(found: Profile) -> float:
            return sum(row.seconds for row in found.rows if row.node.startswith("matmul"))
        odd = scores(253)
        kept(said(odd, "rows are multiplied in"), products(odd), products(scores(256)))

    def test_images_in_patches(self) -> None:
        build = GraphBuilder()
        x = build.input("x", "fp16", (1, 3, 224, 224))
        whole = made(build, build.single("conv", x=x, weight=weights(192, 3, 16, 16), strides=[16, 16]))
        build = GraphBuilder()
        x = build.input("x", "fp16", (1, 768, 14, 14))
        patches = made(build, build.single("conv", x=x, weight=weights(192, 768, 1, 1)))
        kept(said(whole, "into patches"), whole.engine_seconds, patches.engine_seconds)

    def test_gains_as_convolutions(self) -> None:
        def block(planar: bool) -> Profile:
            build = GraphBuilder()
            x = build.single("relu", x=build.input("x", "fp16", (1, 64, 56, 56)))
            gains = weights(64, 1, 1, 1)
            y = build.single("mul", x=x, y=gains.reshape(1, 64, 1, 1)) if planar else \
                build.single("conv", x=x, weight=gains, groups=64)
            return made(build, build.single("add", x=x, y=y))
        before = block(True)
        kept(said(before, "of channels on the planar"), before.engine_seconds, block(False).engine_seconds)

    def test_activations_nobody_else_is_beside(self) -> None:
        def block(beside: bool) -> Profile:
            build = GraphBuilder()
            x = build.single("conv", x=build.input("x", "fp16", (1, 256, 32, 32)), weight=weights(256, 256, 1, 1))
            y = build.single("conv", x=build.single("sigmoid", x=x), weight=weights(64, 256, 1, 1))
            return made(build, build.single("add", x=y, y=build.single("conv", x=x, weight=weights(64, 256, 1, 1)))
                        if beside else y)
        found = explain(block(True)).advice
        assert [r.subject for each in found for r in each.reasons if "others read" in r.what and r.gain]
        assert not [each for each in explain(block(False)).advice if "nobody else" in each.remedy]

    def test_gains_in_the_weights_behind(self) -> None:
        def block(gains: bool) -> Profile:
            build = GraphBuilder()
            x = build.input("x", "fp16", (128, 768))
            vectors: dict[str, Any] = {"gamma": weights(768), "beta": weights(768)} if gains else {}
            x = build.single("layer_norm", x=x, axes=[-1], epsilon=np.float16(1e-5), **vectors)
            return made(build, build.single("linear", x=x, weight=weights(64, 768)))
        full = block(True)
        kept(said(full, "gains and offsets"), full.engine_seconds, block(False).engine_seconds)

    def test_norms_over_the_last_axis(self) -> None:
        def block(axis: int, shape: tuple[int, ...]) -> Profile:
            build = GraphBuilder()
            x = build.single("relu", x=build.input("x", "fp16", shape))
            x = build.single("layer_norm", x=x, axes=[axis], epsilon=np.float16(1e-5))
            return made(build, build.single("relu", x=x))
        channels = block(1, (1, 192, 1, 200))
        advice = said(channels, "norms over the last axis")
        last = block(-1, (1, 200, 192))
        assert len(last.rows) < len(channels.rows)
        kept(advice, channels.engine_seconds, last.engine_seconds)

    def test_softmax_costs_the_same_over_every_axis(self) -> None:
        """So nothing is advised."""
        times = []
        for axis in (1, 2, 3):
            build = GraphBuilder()
            x = build.single("relu", x=build.input("x", "fp16", (1, 160, 4, 160)))
            times.append([row.seconds for row in made(build, build.single("softmax", x=x, axis=axis)).rows
                          if row.node.startswith("softmax")])
        assert {len(each) for each in times} == {5}
        assert max(map(sum, times)) < 1.25 * min(map(sum, times))

    def test_a_residual_keeps_its_gains(self) -> None:
        build = GraphBuilder()
        x = build.input("x", "fp16", (128, 768))
        norm = build.single("layer_norm", x=x, axes=[-1], epsilon=np.float16(1e-5), gamma=weights(768),
                            beta=weights(768))
        behind = build.single("linear", x=norm, weight=weights(768, 768))
        found = explain(made(build, build.single("add", x=norm, y=behind)))
        assert not [each for each in found.advice if "gains" in each.remedy]


def test_tensors_that_leave_the_chip() -> None:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 64, 256, 256))
    y = build.single("max_pool", x=build.single("add", x=x, y=x), kernel_sizes=[3, 3], strides=[1, 1], pad_type="same")
    advice = said(made(build, build.single("relu", x=y)), "do not stay in L2")
    assert advice.gain
    assert advice.gain > 0


def test_ports_are_not_advised_against() -> None:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 64, 256, 256))
    found = explain(made(build, build.single("add", x=x, y=np.float16(1))))
    assert not [each for each in found.advice if "L2" in str(each)]
    assert found.rest.parts.keys() == {"tile"}


def host(programs: int) -> Profile:
    """A model of so many equal programs with two host operations in between."""
    build = GraphBuilder()
    found = compiled(build, build.single("relu", x=build.input("x", "fp16", (1, 4, 8, 32))))
    subject = subject_of(found)
    return profile(ProfileSubject("split", "h13", subject.programs * programs, host=("topk 'a'", "topk 'b'")), "m1")


def test_a_split_is_charged_once() -> None:
    """Two operations on the host that share a split cost one dispatch between them, and nobody claims it again."""
    found = host(2)
    advice = explain(found)
    assert [each.gain for each in advice.advice if "host" in each.remedy] == [pytest.approx(found.dispatch)]
    assert advice.together <= found.seconds
    assert not [each for each in advice.advice if "pipeline" in each.remedy]
    alone = explain(host(1))
    assert [each.gain for each in alone.advice if "host" in each.remedy] == [None]


def rich() -> Profile:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 32, 64, 64))
    y = build.single("conv", x=x, weight=weights(300, 32, 1, 1), pad_type="same")
    y = build.single("transpose", x=y, perm=[0, 2, 3, 1])
    y = build.single("add", x=build.single("softmax", x=y, axis=-1), y=build.single("tanh", x=y))
    return made(build, y)


def test_gains_add_up_to_less_than_the_whole() -> None:
    found = rich()
    advice = explain(found)
    assert advice.advice
    assert 0 < advice.together <= found.seconds
    assert advice.together + advice.rest.seconds <= found.seconds * (1 + 1e-9)
    for each in advice.advice:
        assert each.gain is None or 0 <= each.gain <= found.seconds
        subjects = [(reason.subject, reason.what) for reason in each.reasons]
        assert len(set(subjects)) == len(subjects)
    assert len({each.remedy for each in advice.advice}) == len(advice.advice)


def test_what_nothing_helps_is_said() -> None:
    found = rich()
    advice = explain(found)
    assert advice.rest.seconds == pytest.approx(sum(advice.rest.kinds.values()))
    assert advice.rest.seconds == pytest.approx(sum(advice.rest.parts.values()))


def test_hazards_are_repeated() -> None:
    found = rich()
    told: Explanation = explain(found, [("conv 'c'", "overflows", "scale it"), ("conv 'd'", "overflows", "scale it")])
    assert [[reason.subject for reason in each.reasons] for each in told.advice if each.remedy == "scale it"] == \
        [["conv 'c'", "conv 'd'"]]


@pytest.mark.parametrize(("scale", "second", "text"), [
    (1e-6, None, "most products round to zero"), (30.0, 30.0, "sums become infinite"), (0.1, None, "")])
def test_hazards_of_a_drawn_sample(scale: float, second: float | None, text: str) -> None:
    build = GraphBuilder()
    weight = np.random.default_rng(0).standard_normal((64, 64))
    y = build.single("linear", x=build.input("x", "fp32", (4, 64)), weight=(weight * scale).astype(np.float32))
    if second is not None:
        y = build.single("linear", x=build.single("relu", x=y), weight=(weight * second).astype(np.float32))
    found = hazards(_model_subject(compiled(build, y)))
    assert bool(found) is bool(text), found
    assert not text or any(text in what for _, what, _ in found)
    assert not text or any("on a sample" in what for _, what, _ in found)


def test_squares_and_powers_that_overflow() -> None:
    build = GraphBuilder()
    x = build.single("mul", x=build.input("x", "fp16", (4, 64)), y=np.float16(200))
    found = hazards(_model_subject(compiled(build, build.single("exp", x=build.single("mul", x=x, y=x)))))
    assert any("become infinite" in what for _, what, _ in found)
    assert any("domain" in what for _, what, _ in found)


def test_places_are_only_called_when_clear() -> None:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 4, 8, 32))
    found = made(build, build.single("relu", x=x))
    where = places(found)
    assert where[0].name == "cpu"
    assert "the cpu is the better place" in verdict(where)
    assert "measure" in verdict((where[0], where[0]))
    assert "no figures" in verdict(where[:1])
    assert "no place is called" in verdict(where, host=2)
    assert {place.name: place.known for place in where} == {
        "engine": NumberKind.MODELLED, "cpu": NumberKind.EXTRAPOLATED, "gpu": NumberKind.EXTRAPOLATED}
    other = profile(found.subject, "m4 max")
    assert {place.known for place in places(other)} == {NumberKind.EXTRAPOLATED}
    elsewhere = explain(profile(rich().subject, "m4 max")).advice
    assert {each.known for each in elsewhere if each.reasons[0].subject != "dispatch"} == {NumberKind.EXTRAPOLATED}


def keys(document: Any) -> set[str]:
    if isinstance(document, dict):
        return set(document).union(*map(keys, document.values()))
    return set().union(*map(keys, document)) if isinstance(document, list) else set()


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    digits = str(Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx")
    assert main(["explain", digits, "--json", "--no-cache"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"]
    assert not {"gain", "seconds", "time"} & keys(document)
    assert {place["known"] for place in document["places"]} == {"modelled", "extrapolated"}
    assert main(["explain", digits, "--chip", "m4 max", "--target", "m1", "--no-cache"]) == 0
    assert "us an inference (extrapolated)" in capsys.readouterr().out
    assert main(["explain", digits, "--chip", "m4 max", "--no-cache"]) == 0
    text = capsys.readouterr().out
    assert "us an inference (modelled)" in text
    assert "what would help" in text
