"""torch.compile(model, backend="openane") and openane.torch.to_engine: results are PyTorch's, what the engine does not
take is said once, other shapes and weights are compiled for, and nothing is left behind."""

from __future__ import annotations

import copy
import gc
import os
import subprocess
import sys
import tomllib
import warnings
import weakref
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.killing import ENVIRONMENT
from support.needs import library
from support.pages import ROOT, plain_code

from openane.errors import UnsupportedError

torch = library("torch")
pytestmark = [pytest.mark.needs("torch"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    if "openane" not in torch._dynamo.list_backends():  # the package is not installed, or an earlier one
        torch._dynamo.register_backend(import_module("openane.torch.backend").openane)
    yield
    torch._dynamo.reset()


def network() -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).eval()


class Singular(torch.nn.Module):
    """What no engine takes."""

    def forward(self, x: Any) -> Any:
        return torch.linalg.svd(x)[1] + 1


def close(found: Any, wanted: Any) -> None:
    found, wanted = found.detach().numpy(), wanted.detach().numpy()
    np.testing.assert_allclose(found, wanted, atol=0.01 * max(1.0, float(np.abs(wanted).max())))


def test_it_computes_what_pytorch_does_for_shapes_and_weights_that_change():
    import openane.torch.backend as backend

    model = network()
    compiled = torch.compile(model, backend="openane")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", backend.EngineFallback)
        for count in (2, 3, 5):
            given = torch.randn(count, 4)
            close(compiled(given), model(given))
        model[0].weight.mul_(3)
        close(compiled(given), model(given))


def test_what_the_engine_does_not_take_runs_in_pytorch_and_is_said_once(monkeypatch):
    import openane.torch.backend as backend

    monkeypatch.setattr(backend, "_SAID", set())
    compiled, given = torch.compile(Singular(), backend="openane"), torch.randn(4, 4)
    with torch.no_grad(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            assert torch.equal(compiled(given), Singular()(given))
    told = [str(each.message) for each in said if issubclass(each.category, backend.EngineFallback)]
    assert len(told) == 1
    assert "svd" in told[0]


def test_a_full_graph_is_refused():
    compiled = torch.compile(Singular(), backend="openane", fullgraph=True)
    with torch.no_grad(), pytest.raises(Exception, match="this operator is not supported"):
        compiled(torch.randn(4, 4))


def test_gradients_are_left_to_pytorch():
    import openane.torch.backend  # noqa: F401

    compiled = torch.compile(network(), backend="openane")
    given = torch.randn(2, 4, requires_grad=True)
    compiled(given).sum().backward()
    assert given.grad is not None


def test_what_was_held_is_freed(monkeypatch):
    import openane.torch.backend as backend

    made, kind = [], backend.EngineProgram

    def watched(*given: Any) -> Any:
        made.append(weakref.ref(program := kind(*given)))
        return program

    monkeypatch.setattr(backend, "EngineProgram", watched)
    compiled = torch.compile(network(), backend="openane")
    with torch.no_grad():
        compiled(torch.randn(2, 4))
    assert made[0]() is not None
    del compiled
    torch._dynamo.reset()
    gc.collect()
    assert made[0]() is None


def test_few_shapes_are_kept(monkeypatch):
    import openane.torch.module as module

    monkeypatch.setattr(module, "MOST_SHAPES", 2)
    engine = module.to_engine(network())
    with torch.no_grad():
        for count in (1, 2, 3):
            engine(torch.randn(count, 4))
    assert len(engine._programs) == 2


def test_a_module_keeps_its_state():
    from openane.torch import to_engine

    model = network()
    engine, given = to_engine(model, torch.randn(2, 4)), torch.randn(2, 4)
    with torch.no_grad():
        close(engine(given), model(given))
        assert list(engine.state_dict()) == list(model.state_dict())
        other = {name: each * 2 for name, each in network().state_dict().items()}
        engine.load_state_dict(other)
        assert all(torch.equal(each, other[name]) for name, each in model.state_dict().items())
        close(engine(given), model(given))


def test_to_engine_refuses_what_does_not_fit():
    from openane.torch import to_engine

    with pytest.raises(UnsupportedError, match="svd"):
        to_engine(Singular(), torch.randn(4, 4))


def test_a_module_is_trained():
    from openane.torch import to_engine

    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).train()
    other = copy.deepcopy(model)
    engine, given, wanted = to_engine(model), torch.randn(3, 8), torch.randn(3, 4)
    steps = [torch.optim.SGD(each.parameters(), 0.02) for each in (engine, other)]
    losses = []
    for _ in range(4):
        for each, step in zip((engine, other), steps, strict=True):
            step.zero_grad()
            loss = (each(given) - wanted).square().sum()
            loss.backward()
            step.step()
        losses.append(loss.item())
        for own, reference in zip(engine.parameters(), other.parameters(), strict=True):
            close(own.grad, reference.grad)
    assert losses[-1] < losses[0]
    assert len(engine._differentiable) == 1  # weights are inputs: nothing was compiled again


def small_bert(folder: Path) -> tuple[Any, Any]:
    """A tokenizer of eight words, which its file in the folder lists, and the configuration of a small model."""
    import transformers

    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "day"]))
    return transformers.BertTokenizer(str(folder / "vocab.txt")), transformers.BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=8)


@pytest.mark.needs("transformers")
def test_a_pipeline_takes_the_module(tmp_path):
    import transformers

    from openane.torch import to_engine

    tokenizer, config = small_bert(tmp_path)
    for task, kind in (("feature-extraction", transformers.BertModel),
                       ("text-classification", transformers.BertForSequenceClassification)):
        model = kind(config).eval()
        found = transformers.pipeline(task, model=to_engine(model), tokenizer=tokenizer, framework="pt")("good day")
        wanted = transformers.pipeline(task, model=model, tokenizer=tokenizer, framework="pt")("good day")
        if task == "feature-extraction":
            np.testing.assert_allclose(np.array(found), np.array(wanted), atol=0.03)
        else:
            assert found[0]["label"] == wanted[0]["label"]
            assert abs(found[0]["score"] - wanted[0]["score"]) < 0.01


@pytest.mark.needs("transformers")
def test_the_page_runs_as_written(tmp_path):
    import transformers

    compiled, module, pipeline = plain_code((ROOT / "docs" / "pytorch.md").read_text())
    x = torch.randn(2, 4)
    names = {"model": network(), "x": x, "example": x, "pipeline": transformers.pipeline}
    for code in (compiled, module):
        exec(compile(code, "pytorch.md", "exec"), names)
        torch.testing.assert_close(names.pop("result"), names["model"](x), atol=0.01, rtol=0.01)
    names["tokenizer"], config = small_bert(tmp_path)
    names["model"] = transformers.BertForSequenceClassification(config).eval()
    made = eval(compile(pipeline, "pytorch.md", "eval"), names)
    assert made("good day")[0]["label"] in ("LABEL_0", "LABEL_1")


@pytest.mark.needs("minutes")
def test_an_installed_package_is_found_by_its_name(tmp_path):
    """In a fresh process, where nothing of the package was imported."""
    about = tmp_path / "installed-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1\n")
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["torch_dynamo_backends"]
    (about / "entry_points.txt").write_text(f"[torch_dynamo_backends]\nopenane = {stated['openane']}\n")
    code = ("import torch\nwith torch.no_grad():\n"
            "    print(torch.compile(torch.nn.ReLU(), backend='openane', fullgraph=True)(torch.ones(1, 4)).tolist())")
    path = os.pathsep.join((str(tmp_path), ENVIRONMENT["PYTHONPATH"]))
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT | {"PYTHONPATH": path}, capture_output=True,
                          text=True, check=False)
    assert done.stdout == "[[1.0, 1.0, 1.0, 1.0]]\n", done.stderr
