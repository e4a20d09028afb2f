"""`quantize`: a graph with compressed weights, and what every layer lost and saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from openane.chips import DEFAULT_TARGET, machines
from openane.chips.weight_forms import ACTIVATIONS_OF_8_BITS, WRITTEN, WeightForm
from openane.errors import UnsupportedError
from openane.graph import Graph, Value, numpy_type
from openane.graph.given import require_graph
from openane.graph.states import without_states
from openane.ops.drawn_inputs import drawn
from openane.quantization.calibrating import CALIBRATED
from openane.quantization.candidates import Candidates, Wanted, calibrated_candidates, nearest_candidates
from openane.quantization.choosing import Step, choose, steps_of
from openane.quantization.forms import BLOCK, StoredWeight, Storing
from openane.quantization.layers import LEAST, Layer, computed_weights, constant_bytes, layers_of
from openane.quantization.looking import Parts, parted
from openane.quantization.measuring import (
    Sample,
    Stored,
    layer_errors,
    output_errors,
    outputs_of,
    relative,
)
from openane.quantization.rewrite import opset_of, packs_bits, with_arrays, with_stored
from openane.quantization.samples import fitting
from openane.quantization.sequence import Told, in_sequence
from openane.quantization.within import within

AUTO = "auto"
FORMS = (*(form.value for form in WeightForm), AUTO)
"""What `form` may be."""
MAX_ERROR = 0.01
"""Error of the outputs that `auto` keeps to, unless another is stated."""
DRAWN = 8
"""How many samples are drawn to round by and to measure on; one to measure alone."""
AUTOMATIC = (WeightForm.INT8_OFFSETS, WeightForm.INT8_COLUMNS, WeightForm.INT8, WeightForm.PALETTE6,
             WeightForm.PALETTE4)
"""What `auto` chooses among; sparse besides, for weights that are at least half zeros as they are."""
LATE: Mapping[str, str] = {WeightForm.INT8_BLOCKS: "blocks", WeightForm.INT8_OFFSETS: "blocks",
                           WeightForm.INT8_COLUMNS: "inputs"}
"""Forms that only later operator sets have operations for: what they have scales for."""


@dataclass(frozen=True, slots=True)
class LayerReport:
    """A layer; `source` is the node of the model's file that it was read from. `form` is None where the weight stays as
    it is. Errors are relative: of the weight, and of the layer's results on the samples (None without samples). Sizes
    are bytes in the model's file. `weight` is the constant as it was, `stored` what it became."""

    name: str
    op: str
    shape: tuple[int, ...]
    form: WeightForm | None
    weight_error: float
    result_error: float | None
    before: int
    after: int
    source: str = ""
    weight: Value | None = field(default=None, repr=False, compare=False)
    stored: StoredWeight | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Quantized:
    """A graph with compressed weights. `errors` are those of the outputs on the samples, by name, `samples` says what
    these are (given, drawn or none). `before` and `after` are bytes of all constants in the model's file."""

    graph: Graph
    source: Graph
    layers: tuple[LayerReport, ...]
    target: str
    samples: str
    errors: Mapping[str, float]
    before: int
    after: int

    @property
    def error(self) -> float | None:
        """The largest of the outputs' errors, None where nothing was measured."""
        return max(self.errors.values(), default=None) if self.errors else None

    @property
    def forms(self) -> tuple[WeightForm, ...]:
        """The forms that layers took."""
        return tuple(form for form in WeightForm if any(layer.form is form for layer in self.layers))

    def streamed(self, form: WeightForm) -> bool:
        """Whether the target's engine reads a form as it is, by what is known of programs of Apple's compiler."""
        return form in machines.target(self.target).facts.streamed

    def elsewhere(self, form: WeightForm) -> str:
        """What is known of a form in programs of Apple's compiler for the target, the end of a sentence."""
        facts = machines.target(self.target).facts
        known = "stays as it is" if form in facts.streamed else "becomes fp16 too" if form in facts.folded else \
            "becomes something that is not known"
        return f"in programs of Apple's compiler for {self.target} it {known}"

    @staticmethod
    def written(form: WeightForm) -> str:
        """What programs of this compiler hold of a form, a sentence."""
        return WRITTEN[form]


def quantize(graph: Graph, form: str = WeightForm.INT8, *, max_error: float | None = None,
             samples: Sample | Sequence[Sample] | None = None, target: str = DEFAULT_TARGET, zeros: float = 0.5,
             block: int = BLOCK, least: int = LEAST, calibrate: bool = True, biases: bool = True,
             activations: str = "fp16", told: Told = lambda done, layers: None) -> Quantized:
    """The graph with the weights of its layers in a `form`: int8, int8-blocks, int8-offsets, int8-columns, palette4,
    palette6, sparse (of which `zeros` is the share of numbers made 0), or auto, a form for each. In int8-blocks and
    int8-offsets so many inputs as `block` says share a scale.

    Weights of convolutions, products, recurrent layers and tables of at least `least` elements are compressed, where
    that makes them smaller. With `max_error`, and with auto, layers are chosen such that the error of every output,
    measured on the samples, stays within it (auto: 0.01 unless stated). `samples` are one or several dictionaries of
    arrays by input name; None draws some, an empty list measures nothing. The target decides what `streamed` says.

    With `calibrate` numbers are rounded such that each layer's results on the samples are near, not to the nearest, and
    with `biases` the layers' biases take the mean of what is left. Each layer also makes good for what those before it
    lost; `told` hears how many layers are done, and of how many, each time they are gone through. Three of four
    samples are for that; errors are measured on the others (on the one, where there is one).

    UnsupportedError for forms that are none, for `activations` other than fp16 (no generation's mode for those of 8
    bits is known) and for choices without samples, GraphError for samples that do not fit.
    """
    require_graph(graph)
    _known(form, max_error, activations)
    _within(zeros, block, least)
    name = machines.target(target).name
    whole = computed_weights(graph)
    stateless = without_states(whole)
    plain = stateless.graph
    parts = parted(_samples(plain, samples, stateless.states, DRAWN if calibrate else 1))
    layers = layers_of(whole, least)
    how = Storing(zeros, block, packs_bits(whole))
    _spelled(whole, form)
    limit = MAX_ERROR if max_error is None and form == AUTO else max_error
    work = _Rounding(plain, layers, parts, how, calibrate and bool(parts.fit), biases, told)
    candidates = work.candidates(form, limit)
    errors, wanted = layer_errors(plain, parts.held, {id(layer.weight): found for layer, found
                                                      in zip(layers, candidates, strict=True)})
    chosen = _chosen(work, candidates, errors, wanted, limit)
    pairs = [(layers[number], stored) for number, stored in sorted(chosen.items())]
    found = output_errors(outputs_of(with_arrays(plain, pairs), parts.held), wanted)
    made = with_stored(whole, pairs)
    reports = tuple(_report(layer, chosen.get(number), errors) for number, layer in enumerate(layers))
    return Quantized(made, graph, reports, name, _said(samples), found, constant_bytes(whole), constant_bytes(made))


@dataclass(frozen=True, slots=True)
class _Rounding:
    """What layers are rounded with: `plain` computes what they are in, `calibrate` says whether samples decide."""

    plain: Graph
    layers: Sequence[Layer]
    parts: Parts
    how: Storing
    calibrate: bool
    biases: bool
    told: Told

    def candidates(self, form: str, limit: float | None) -> Candidates:
        """What each layer can be stored as: in one form, in the layers' order, or in several, by themselves."""
        forms = _wanted(form, self.how.packed)
        if not self.calibrate:
            return nearest_candidates(self.layers, forms, self.how)
        if limit is not None or form not in CALIBRATED:
            return calibrated_candidates(self.plain, self.layers, forms, self.parts, self.how, self.biases)
        return [[] if stored is None else [stored] for stored in self._in_order([WeightForm(form)] * len(self.layers))]

    def in_order(self, chosen: Mapping[int, StoredWeight]) -> dict[int, StoredWeight]:
        """The layers that are chosen in their forms, one after another; others stay as they are."""
        forms = [chosen[number].form if number in chosen else None for number in range(len(self.layers))]
        found = self._in_order(forms)
        return {number: stored for number, stored in enumerate(found) if stored is not None}

    def _in_order(self, forms: Sequence[WeightForm | None]) -> list[StoredWeight | None]:
        return in_sequence(self.plain, self.layers, forms, self.parts, self.how, self.biases, self.told)


def _said(samples: Sample | Sequence[Sample] | None) -> str:
    """What the samples are, in a word."""
    return "drawn" if samples is None else "given" if samples else "none"


def _spelled(graph: Graph, form: str) -> None:
    """UnsupportedError for a form that the graph's opset has no operation for."""
    if packs_bits(graph) and form in LATE:
        raise UnsupportedError("quantize", f"scales for {LATE[form]} of a weight came with iOS 18",
                               limit="ios18 or later", found=opset_of(graph),
                               remedy="int8, which has a scale for each channel")


def _known(form: str, max_error: float | None, activations: str) -> None:
    if activations != "fp16":
        raise UnsupportedError("quantize", f"activations in {activations} are not built: {ACTIVATIONS_OF_8_BITS}",
                               limit="fp16", found=activations, remedy="weights alone: --form int8")
    if form not in FORMS:
        raise UnsupportedError("quantize", "weights have no such form", limit=", ".join(FORMS), found=form)
    if max_error is not None and not 0 <= max_error < np.inf:
        raise UnsupportedError("quantize", "an error is a finite number of 0 or more", found=max_error,
                               remedy="0.01 is one per cent of the outputs' size")


def _within(zeros: float, block: int, least: int) -> None:
    """UnsupportedError for settings of the forms that cannot be."""
    if not 0 <= zeros < 1:
        raise UnsupportedError("quantize", "the share of numbers made 0 is from 0 to below 1", found=zeros)
    if block < 2:
        raise UnsupportedError("quantize", "a scale is for two inputs or more", limit="2 or more", found=block)
    if least < 1:
        raise UnsupportedError("quantize", "weights have a number or more", limit="1 or more", found=least)


def _samples(plain: Graph, samples: Sample | Sequence[Sample] | None, states: Sequence[Value], count: int
             ) -> list[Sample]:
    """The samples, drawn where none are given; states that are not given are zeros, as when a model is loaded."""
    empty = {value.name: np.zeros(value.shape, numpy_type(value.dtype)) for value in states}
    if samples is None:
        return [{**drawn(plain, seed), **empty} for seed in range(count)]
    several = [samples] if isinstance(samples, Mapping) else list(samples)
    return [fitting({**empty, **sample}, plain) for sample in several]


def _wanted(form: str, packed: bool) -> Wanted:
    """The forms a layer can take; for `auto` without its zeros too, where it is half zeros."""
    if form != AUTO:
        return lambda layer: (WeightForm(form),)
    usual = tuple(each for each in AUTOMATIC if not (packed and each in LATE))

    def forms(layer: Layer) -> Sequence[WeightForm]:
        weight = layer.weight.array()
        return (*usual, WeightForm.SPARSE) if 2 * (weight == 0).sum() >= weight.size else usual
    return forms


def _chosen(work: _Rounding, candidates: Candidates, errors: Mapping[tuple[int, str], float],
            wanted: Sequence[Mapping[str, np.ndarray]], limit: float | None) -> dict[int, StoredWeight]:
    """What every layer takes for outputs within an error; without a limit the first that it can."""
    if limit is None:
        return {number: found[0] for number, found in enumerate(candidates) if found}
    layers, samples = work.layers, work.parts.held
    if not samples:
        raise UnsupportedError("quantize", "layers are chosen by errors, which are measured on samples",
                               found="no samples", remedy="give samples, or let them be drawn")
    steps: list[Step] = []
    for number, (layer, found) in enumerate(zip(layers, candidates, strict=True)):
        own = {stored.form.value: errors.get((id(layer.weight), stored.form), 0.0) for stored in found}
        steps += steps_of(number, layer, found, own)

    def error_of(chosen: Mapping[int, StoredWeight]) -> float:
        pairs: Stored = [(layers[number], stored) for number, stored in chosen.items()]
        made = output_errors(outputs_of(with_arrays(work.plain, pairs), samples), wanted)
        return max(made.values(), default=0.0)

    def size_of(chosen: Mapping[int, StoredWeight]) -> int:
        return sum(chosen[number].size if number in chosen else layer.size for number, layer in enumerate(layers))

    def choose_for(error: float) -> dict[int, StoredWeight]:
        return choose(steps, error_of, error)

    return within(limit, choose_for, work.in_order, error_of, size_of) if work.calibrate else choose_for(limit)


def _report(layer: Layer, stored: StoredWeight | None, errors: Mapping[tuple[int, str], float]) -> LayerReport:
    source = layer.nodes[0].source
    if stored is None:
        return LayerReport(layer.name, layer.op, layer.weight.shape, None, 0.0, 0.0, layer.size, layer.size, source,
                           layer.weight)
    return LayerReport(layer.name, layer.op, layer.weight.shape, stored.form,
                       relative(stored.array, layer.weight.array()), errors.get((id(layer.weight), stored.form)),
                       layer.size, stored.size, source, layer.weight, stored)
