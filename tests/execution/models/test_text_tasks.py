"""What is asked of encoders of text, from texts: tags, answers, scores of pairs, vectors, as the library gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.drawn_models import drawn, keeping

import openane as ane
from openane.errors import FormatError, GenerationError, UnsupportedError
from openane.models.text_encoders import TextEncoderModel

pytestmark = [pytest.mark.needs("torch", "transformers"), pytest.mark.filterwarnings("ignore")]
DEVICE = "simulator?arithmetic=fast"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "dog", "sat", "on", "mat", "who", "##s", "a", "red", "in"]
QUESTION, TEXT = "who sat on the mat", "the cats sat on a red mat in the dog"


def tokenizer_in(folder: Path) -> Any:
    import transformers

    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    made = transformers.BertTokenizer(str(folder / "vocab.txt"))
    made.save_pretrained(folder)
    return made


def saved(folder: Path, kind: str, **settings: Any) -> tuple[Any, Any]:
    """A BERT and its tokenizer in a directory."""
    import transformers

    config = transformers.BertConfig(vocab_size=len(WORDS), hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=96, max_position_embeddings=64, **settings)
    made = drawn(folder, lambda: getattr(transformers, f"Bert{kind}")(config),
                 lambda name, weight: 1.5 * keeping(name, weight), 0, 1)
    return made, tokenizer_in(folder)


def loaded(folder: Path) -> TextEncoderModel:
    found = ane.load_pretrained(folder, DEVICE, lengths=(24, 8))
    assert isinstance(found, TextEncoderModel)
    return found


def test_pairs_are_scored_and_ranked(tmp_path: Path) -> None:
    import torch

    made, words = saved(tmp_path, "ForSequenceClassification", num_labels=1)
    with loaded(tmp_path) as model, torch.no_grad():
        wanted = [float(made(**words(QUESTION, text, return_tensors="pt")).logits) for text in (TEXT, "a red dog")]
        ranked = model.rank(QUESTION, [TEXT, "a red dog"])
        assert dict(ranked) == pytest.approx(dict(enumerate(wanted)), abs=0.02)
        assert ranked[0][1] >= ranked[1][1]
        assert next(iter(model.classify(TEXT).values())) == pytest.approx(
            1 / (1 + np.exp(-float(made(**words(TEXT, return_tensors="pt")).logits))), abs=0.01)
        with pytest.raises(GenerationError, match="not for answer"):
            model.answer(QUESTION, TEXT)


def test_words_are_tagged(tmp_path: Path) -> None:
    import torch

    made, words = saved(tmp_path, "ForTokenClassification", num_labels=4, id2label={0: "O", 1: "A", 2: "B", 3: "C"})
    with loaded(tmp_path) as model, torch.no_grad():
        logits = made(**words(TEXT, return_tensors="pt")).logits[0, 1:-1]
        found = model.tag(TEXT)
        assert [each.label for each in found] == ["OABC"[int(best)] for best in logits.argmax(-1)]
        assert [each.text for each in found][:3] == ["the", "cat", "s"]


def test_questions_are_answered(tmp_path: Path) -> None:
    import torch

    made, words = saved(tmp_path, "ForQuestionAnswering")
    with loaded(tmp_path) as model, torch.no_grad():
        given = words(QUESTION, TEXT, return_tensors="pt")
        logits = made(**given)
        starts, ends, inside = (x[0].numpy() for x in (logits.start_logits, logits.end_logits,
                                                       given["token_type_ids"].bool()))
        places = np.flatnonzero(inside)[:-1]  # the last separates
        best = max((starts[a] + ends[b], a, b) for a in places for b in places if a <= b)
        spans = words(QUESTION, TEXT, return_offsets_mapping=True)["offset_mapping"]
        found = model.answer(QUESTION, TEXT)
        assert found.text == TEXT[spans[best[1]][0]:spans[best[2]][1]]
        assert found.score == pytest.approx(float(best[0]), abs=0.05)


def test_vectors_are_pooled_as_the_directory_says(tmp_path: Path) -> None:
    import torch

    made, words = saved(tmp_path, "Model")
    (tmp_path / "1_Pooling").mkdir()
    modules = [{"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
               for at, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("", "Normalize")))]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    pooling = tmp_path / "1_Pooling" / "config.json"
    with torch.no_grad():
        states = made(**words(TEXT, return_tensors="pt")).last_hidden_state[0].numpy()
    for flag, pooled in (("cls_token", states[0]), ("mean_tokens", states.mean(0)), ("max_tokens", states.max(0))):
        pooling.write_text(json.dumps({f"pooling_mode_{flag}": True, "word_embedding_dimension": 64}))
        with loaded(tmp_path) as model:
            found = model.embed(TEXT)
        assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)
        assert found @ pooled / np.linalg.norm(pooled) > 0.9999
    (tmp_path / "modules.json").write_text(json.dumps([*modules, modules[0] | {"type": "x.Dense"}]))
    with pytest.raises(UnsupportedError, match="Dense"):
        loaded(tmp_path)


def test_what_is_refused_is_named(tmp_path: Path) -> None:
    saved(tmp_path, "Model")
    configuration = json.loads((tmp_path / "config.json").read_text())

    def refused(kind: type[Exception], words: str, **changed: Any) -> None:
        (tmp_path / "config.json").write_text(json.dumps(configuration | changed))
        with pytest.raises(kind, match=words):
            ane.load_pretrained(tmp_path, DEVICE)

    refused(UnsupportedError, "model_type 'rwkv'.*bert", model_type="rwkv")
    refused(UnsupportedError, "MultipleChoice", architectures=["BertForMultipleChoice"])
    refused(UnsupportedError, "position_embedding_type", position_embedding_type="relative_key")
    refused(UnsupportedError, "quantization_config", quantization_config={"quant_method": "gptq"})
    refused(FormatError, "encoder.layer.1", num_hidden_layers=1)
    refused(FormatError, "a weight is missing", num_hidden_layers=3)
    refused(FormatError, "word_embeddings", vocab_size=16)
