"""Directories on the command line and in Python, with the core's own libraries: nothing here needs PyTorch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import openane as ane
from openane import models
from openane.cli import main
from openane.errors import ContextFull, GenerationError, UnsupportedError
from openane.models.pretrained import FAMILIES, RULES, family_of, pretrained_graphs
from openane.models.text_encoders import TextEncoderModel

DEVICE = "simulator?arithmetic=fast"
WIDTH, WORDS, LABELS = 32, 40, ["no", "yes"]
TOKENS = [2, 9, 30, 17, 3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT that classifies, of weights from a seed."""
    made = tmp_path_factory.mktemp("bert")
    draw = np.random.default_rng(0)
    shapes = {"bert.embeddings.word_embeddings.weight": (WORDS, WIDTH),
              "bert.embeddings.position_embeddings.weight": (24, WIDTH),
              "bert.embeddings.token_type_embeddings.weight": (2, WIDTH),
              "bert.pooler.dense.weight": (WIDTH, WIDTH), "classifier.weight": (2, WIDTH)}
    for part, (rows, columns) in {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH),
                                  "attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH),
                                  "intermediate.dense": (64, WIDTH), "output.dense": (WIDTH, 64)}.items():
        shapes[f"bert.encoder.layer.0.{part}.weight"] = (rows, columns)
    tensors = {name: draw.standard_normal(shape) / shape[-1] ** 0.5 for name, shape in shapes.items()}
    tensors |= {name.removesuffix("weight") + "bias": 0.1 * draw.standard_normal(shape[0])
                for name, shape in shapes.items() if "embeddings" not in name}
    for norm in ("embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"):
        tensors |= {f"bert.{norm}.LayerNorm.weight": np.ones(WIDTH), f"bert.{norm}.LayerNorm.bias": np.zeros(WIDTH)}
    save_file({name: array.astype(np.float32) for name, array in tensors.items()}, made / "model.safetensors")
    (made / "config.json").write_text(json.dumps({
        "model_type": "bert", "architectures": ["BertForSequenceClassification"], "hidden_size": WIDTH,
        "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 64, "vocab_size": WORDS,
        "max_position_embeddings": 24, "type_vocab_size": 2, "id2label": {"0": "no", "1": "yes"}}))
    return made


def test_both_ways_to_load_an_encoder_give_the_same(folder: Path) -> None:
    with models.load_encoder(folder, DEVICE, (8,)) as encoder:
        pooled = encoder.encode(TOKENS).pooled
    with ane.load_pretrained(folder, DEVICE, lengths=(16, 8)) as model:
        assert isinstance(model, TextEncoderModel)
        assert model.lengths == (8, 16)
        logits = model.run(TOKENS)["logits"]
        shares = model.classify(TOKENS)
        longer = model.run(TOKENS + [5] * 7)["logits"]
        assert list(shares) == ([*LABELS] if logits[0] > logits[1] else LABELS[::-1])
        assert sum(shares.values()) == pytest.approx(1)
        with pytest.raises(ContextFull):
            model.run([1] * 17)
        with pytest.raises(GenerationError, match="token 40"):
            model.run([40])
        with pytest.raises(GenerationError, match="no tokenizer"):
            model.run("a text")
    with models.text_encoders.load.opened(folder) as weights:
        matrix = weights.matrix(["classifier"], 2, WIDTH).astype(np.float32)
        bias = weights.bias(["classifier"], 2)
    assert pooled is not None
    assert bias is not None
    np.testing.assert_allclose(logits, matrix @ pooled + bias, atol=0.01)
    assert np.abs(longer - logits).max() > 0.01


def test_a_directory_is_compiled_and_run_on_the_command_line(
        folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = tmp_path / "bert.ane"
    assert main(["compile", str(folder), "-o", str(bundle), "--shape", "tokens={8,16}"]) == 0
    said = capsys.readouterr().err
    assert "function encode_8" in said
    assert "on the host, before and behind: rows of the tables" in said
    assert main(["run", str(folder), "--shape", "tokens=8", "--check", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["outputs"]["logits"]["shape"] == [1, 1, 2]
    assert document["host_operations"] == 0
    assert main(["compile", str(folder), "-o", str(bundle), "--shape", "ids=8"]) == 1
    assert "tokens=128" in capsys.readouterr().err
    assert main(["compile", str(folder), "-o", str(bundle), "--function", "decode"]) == 1
    assert "encode_24" in capsys.readouterr().err  # the model's longest text, shorter than the default


def test_families_are_listed_and_others_refused(folder: Path, tmp_path: Path) -> None:
    assert family_of(folder).route == RULES
    assert {"bert", "t5", "whisper", "llama", "vit", "clip", "wav2vec2", "deberta-v2"} <= FAMILIES.keys()
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UnsupportedError, match="ane generate"):
        pretrained_graphs(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "unheard"}')
    with pytest.raises(UnsupportedError, match=r"'unheard'.*albert"):
        ane.load_pretrained(tmp_path)
