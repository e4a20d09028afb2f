"""What people do with modules beside calling them: every dimension open, training what has norms, copies, files."""

from __future__ import annotations

import copy
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.needs import library

from openane.compiler import compile as compile_graph
from openane.errors import GraphError, UnsupportedError

torch = library("torch")
nn = torch.nn
pytestmark = [pytest.mark.needs("torch"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch.manual_seed(0)
    if "openane" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(import_module("openane.torch.backend").openane)
    yield
    torch._dynamo.reset()


def network() -> Any:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(8, 5)).eval()


def close(found: Any, wanted: Any, error: float = 0.005) -> None:
    wide = wanted.detach().numpy()
    np.testing.assert_allclose(found.detach().numpy(), wide, atol=error * float(np.abs(wide).max()))


def engine_warnings(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(each.message) for each in caught if "runs in PyTorch" in str(each.message)]


@pytest.mark.parametrize("fullgraph", [False, True])
def test_every_dimension_open_and_norms_with_an_epsilon(fullgraph: bool) -> None:
    model = network()
    compiled = torch.compile(model, backend="openane", dynamic=True, fullgraph=fullgraph)
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        for count, side in ((2, 8), (3, 8), (3, 10)):
            x = torch.randn(count, 3, side, side)
            close(compiled(x), model(x))
    assert not engine_warnings(caught)


def test_a_number_that_changes_with_every_call() -> None:
    compiled = torch.compile(lambda x, factor: x * factor + 1, backend="openane", dynamic=True)
    x = torch.randn(3, 4)
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        for number in range(12):
            close(compiled(x, number + 0.5), x * (number + 0.5) + 1)
    (said,) = engine_warnings(caught)
    assert "numbers of a graph are constants of its program" in said


@pytest.mark.parametrize("layers", [
    lambda: (nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten()),
    lambda: (nn.Flatten(), nn.LayerNorm(108), nn.GELU()),
    lambda: (nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Flatten()),
], ids=["bias of a convolution", "layer norm", "group norm"])
def test_layers_are_trained_with_all_their_weights(layers: Any) -> None:
    import openane.torch

    parts = layers()
    x = torch.randn(2, 3, 6, 6)
    model = nn.Sequential(*parts, nn.Linear(nn.Sequential(*parts)(x).shape[1], 2)).train()
    other = copy.deepcopy(model)
    for each, run in ((model, openane.torch.to_engine(model)), (other, other)):
        optimiser = torch.optim.SGD(each.parameters(), lr=0.02)
        for _ in range(3):
            optimiser.zero_grad()
            (run(x) - 1).pow(2).mean().backward()
            optimiser.step()
    for (name, found), wanted in zip(model.named_parameters(), other.parameters(), strict=True):
        assert float((found - wanted).abs().max()) <= 0.01 * float(wanted.abs().max()) + 1e-3, name


def test_running_statistics_that_stay_are_said() -> None:
    import openane.torch

    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).train()
    with pytest.warns(UserWarning, match="running statistics stay as they are"):
        openane.torch.to_engine(model)(torch.randn(2, 3, 6, 6)).sum().backward()


def test_copies_and_files(tmp_path: Path) -> None:
    import openane.torch

    x = torch.randn(2, 3, 8, 8)
    engine = openane.torch.to_engine(network(), x)
    torch.save(engine, tmp_path / "engine.pt")
    with torch.no_grad():
        for other in (copy.deepcopy(engine), torch.load(tmp_path / "engine.pt", weights_only=False)):
            assert torch.equal(other(x), engine(x))


@pytest.mark.parametrize(("name", "value", "wanted"), [
    ("targt", "h14", "did you mean target"), ("speed", 9, "limit target, allow_host"), ("target", "h99", "ane chips"),
])
def test_options_that_are_none_are_refused(name: str, value: Any, wanted: str) -> None:
    import openane.torch

    options: dict[str, Any] = {name: value}
    x = torch.zeros(1, 3, 8, 8)
    with pytest.raises(UnsupportedError, match=wanted):
        openane.torch.to_engine(network(), x, **options)
    with torch.no_grad(), pytest.raises(Exception, match=f"UnsupportedError.*(\n|.)*{wanted}"):
        torch.compile(network(), backend="openane", options=options)(x)


def test_what_is_no_module_and_no_tensor_is_refused() -> None:
    import openane.torch

    with pytest.raises(UnsupportedError, match="it takes a module of PyTorch"):
        openane.torch.to_engine(lambda x: x)
    with pytest.raises(UnsupportedError, match="arguments are tensors of PyTorch"):
        openane.torch.to_engine(network())(np.zeros((1, 3, 8, 8), np.float32))


def test_modules_and_exported_programs_are_told_what_takes_them() -> None:
    program = torch.export.export(nn.Linear(4, 4), (torch.zeros(1, 4),))
    for given, said in ((program, "openane.load_graph takes a program"), (nn.Linear(4, 4), "openane.torch.to_engine")):
        with pytest.raises(GraphError, match=said):
            compile_graph(given)


def _doubles(x: Any, y: Any) -> Any:
    x[:, 1].mul_(2)
    y.zero_()
    return x + 1


@pytest.mark.parametrize("way", ["to_engine", "compile"])
def test_arguments_that_a_module_writes_to_are_written(way: str) -> None:
    from openane.torch import to_engine

    class Doubles(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, y: Any) -> Any:
            return _doubles(x, y)

    x, y = torch.randn(2, 3, 4).half().float(), torch.randn(4)
    ours, wanted = (x.clone(), y.clone()), (x.clone(), y.clone())
    result = _doubles(*wanted)
    with torch.no_grad():
        found = to_engine(Doubles(), (x, y))(*ours) if way == "to_engine" else \
            torch.compile(Doubles(), backend="openane", fullgraph=True)(*ours)
    close(found, result)
    for one, other in zip(ours, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_weights_that_the_model_computes() -> None:
    """Modulated, depthwise, transposed and correlating convolutions: a kernel for every image."""
    functional = nn.functional

    def function(x: Any, style: Any) -> Any:
        count = x.shape[0]
        weight = style.reshape(count, 6, 4, 3, 3)
        weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        whole = x.reshape(1, count * 4, 8, 8)
        plain = functional.conv2d(whole, weight.reshape(-1, 4, 3, 3), padding=1, groups=count)
        alone = functional.conv2d(whole, weight[:, 0].reshape(-1, 1, 3, 3), groups=count * 4, stride=2)
        longer = functional.conv_transpose2d(whole, weight.transpose(1, 2).reshape(count * 4, 6, 3, 3), stride=2,
                                             groups=count, padding=1, output_padding=1)
        over = functional.conv_transpose2d(x, weight[0].transpose(0, 1), bias=style[0, :6], stride=2)
        return plain, alone, longer, over

    class Modulated(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, style: Any) -> Any:
            return function(x, style)

    from openane.torch import to_engine
    given = torch.randn(2, 4, 8, 8), torch.randn(2, 216)
    with torch.no_grad():
        for found, wanted in zip(to_engine(Modulated(), given, allow_host=False)(*given), function(*given),
                                 strict=True):
            close(found, wanted)


def test_instance_norms_by_kept_statistics() -> None:
    from openane.torch import to_engine
    model = nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(4, 4, 6, 6) * 3 + 1)
        x = torch.randn(2, 4, 6, 6)
        close(to_engine(model.eval(), x)(x), model(x))
