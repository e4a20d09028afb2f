"""Images of PyTorch programs in other sizes, sampled at positions, and convolutions that enlarge them."""

from __future__ import annotations

import warnings
from unittest import mock

from support.needs import library
from support.torch_programs import hold, hold_all, image, module

from openane.importers.torch.exported import taken_apart

torch = library("torch")
F = torch.nn.functional


def test_sizes_and_factors() -> None:
    hold_all({
        "nearest up": lambda x: F.interpolate(x, size=(15, 11)),
        "nearest down": lambda x: F.interpolate(x, size=(5, 3)),
        "nearest by a factor": lambda x: F.interpolate(x, scale_factor=1.3),
        "exact": lambda x: F.interpolate(x, size=(5, 11), mode="nearest-exact"),
        "rounded size": lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear"),
        "corners": lambda x: F.interpolate(x, size=(5, 11), mode="bilinear", align_corners=True),
        "cubic": lambda x: F.interpolate(x, size=(12, 5), mode="bicubic"),
        "area": lambda x: F.interpolate(x, size=(12, 5), mode="area")}, image())


def test_smooth_forms() -> None:
    hold_all({f"{mode} {size} {aligned}": lambda x, mode=mode, size=size, aligned=aligned: F.interpolate(
        x, size=size, mode=mode, antialias=True, align_corners=aligned)
        for mode in ("bilinear", "bicubic") for size in ((3, 20), (8, 5)) for aligned in (False, True)}, image())


def test_volumes() -> None:
    x = image(1, 3, 4, 5, 6)
    for mode in ({"mode": "trilinear"}, {"mode": "trilinear", "align_corners": True}, {"mode": "nearest"}):
        for size in ({"scale_factor": 2}, {"size": (7, 3, 6)}, {"scale_factor": (1.3, 2, 1)}):
            graph = hold(module(lambda x, size=size, mode=mode: F.interpolate(x, **size, **mode)), x)
            assert len(graph.nodes) <= 9


def test_samples_at_constant_places_and_at_computed_ones() -> None:
    grid = F.affine_grid(torch.tensor([[[0.8, 0.1, 0.1], [-0.1, 0.9, 0.05]]]), [1, 4, 5, 6], align_corners=False)
    hold_all({f"{mode} {padding}": lambda x, mode=mode, padding=padding: F.grid_sample(
        x, grid, mode=mode, padding_mode=padding, align_corners=False)
        for mode in ("bilinear", "bicubic") for padding in ("zeros", "border", "reflection")}, image())
    graph = hold(module(lambda x, at: F.grid_sample(x, at, align_corners=True)), image(), grid)
    assert sum(node.op.startswith("gather") for node in graph.nodes) == 4


def test_operators_are_taken_apart_all_at_once_and_each_for_itself_where_one_does_not_help() -> None:
    grid = F.affine_grid(torch.eye(2, 3)[None], [1, 4, 5, 6], align_corners=False)

    def apart(function: object) -> tuple[str, int]:
        whole = torch.export.ExportedProgram
        warnings.simplefilter("ignore")  # PyTorch's own
        program = torch.export.export(module(function), (image(),), strict=False)
        with mock.patch.object(whole, "run_decompositions", autospec=True, side_effect=whole.run_decompositions) as run:
            return str(taken_apart(torch, program).graph), run.call_count

    def sampled(x: object) -> object:
        return F.grid_sample(x, grid, align_corners=False)

    graph, runs = apart(lambda x: F.dropout(sampled(x), 0.5, True))
    assert "grid_sampler" not in graph
    assert runs == 2
    graph, runs = apart(lambda x: torch.nextafter(sampled(x), x.sum()))
    assert "grid_sampler" not in graph
    assert "nextafter" in graph
    assert runs > 2


def test_output_padding_beyond_the_padding() -> None:
    for padding, extra, groups in ((0, 1, 1), (1, 2, 2), (1, 1, 4)):
        hold(torch.nn.ConvTranspose2d(4, 8, 3, 3, padding, extra, groups), image())
    hold(torch.nn.ConvTranspose1d(4, 2, 2, 2, 0, 1, bias=False), image(1, 4, 6))


def test_pools_whose_sizes_do_not_divide() -> None:
    hold_all({"mean": lambda x: F.adaptive_avg_pool2d(x, (3, 7)), "means of three": lambda x: F.adaptive_avg_pool3d(
        x.reshape(1, 2, 2, 8, 8), (1, 3, 5)), "enlarged": lambda x: F.adaptive_avg_pool2d(x, 11)}, image())


def test_bags_of_rows() -> None:
    numbers = torch.randint(0, 10, (12,))
    table = image(10, 8)
    begins = torch.tensor([0, 4, 4, 7])
    hold(module(lambda at: F.embedding_bag(at, table, begins, mode="sum")), numbers)
    hold(module(lambda at: F.embedding_bag(at.reshape(3, 4), table, mode="max")), numbers)
    hold(module(lambda at, share: F.embedding_bag(at.reshape(3, 4), table, mode="sum", per_sample_weights=share)),
         numbers, image(3, 4))


def test_diagonals_rolls_and_rounding() -> None:
    hold_all({"diagonal": lambda x: x.diagonal(1, 1, 3), "below": lambda x: x.diagonal(-2, 3, 2),
              "all in a row": lambda x: torch.roll(x, 5), "trunc": lambda x: torch.trunc(x * 3),
              "fmod": lambda x: torch.fmod(x, 0.75), "log2": lambda x: torch.log2(x.abs() + 1),
              "softplus": lambda x: F.softplus(x, beta=3), "nan": lambda x: torch.nan_to_num(x),
              "together": lambda x: torch.logaddexp(x, -x)}, image(), tolerance=2e-2)


def test_a_layer_on_windows_of_six_dimensions() -> None:
    layer = torch.nn.Linear(4, 6)
    hold(module(lambda x: layer(x.reshape(1, 2, 2, 4, 4, 4)).sum((1, 2))), image())
