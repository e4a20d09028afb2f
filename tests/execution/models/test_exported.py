"""Models of images and sounds that the transformers library saved, loaded from their directories: the same numbers."""

from __future__ import annotations

import json
import wave
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.drawn_models import drawn

import openane as ane
from openane.cli import main
from openane.errors import FormatError, UnsupportedError
from openane.models.exported import ImageModel, SoundModel, TowersModel
from openane.models.text_encoders import TextEncoderModel

pytestmark = [pytest.mark.needs("torch", "transformers"), pytest.mark.filterwarnings("ignore")]
DEVICE = "simulator?arithmetic=fast"
PLAIN: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
PATCHES = PLAIN | {"image_size": 32, "patch_size": 8, "num_labels": 5}
STAGES = {"hidden_sizes": [16, 32, 32, 64], "depths": [1, 1, 1, 1]}
BACKBONE = {"model_type": "resnet", "embedding_size": 16, "layer_type": "basic", "out_features": ["stage4"], **STAGES}
DINO = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "image_size": 56, "patch_size": 14}
FAMILIES: dict[str, tuple[str, Mapping[str, Any], int]] = {
    "ViTForImageClassification": ("ViT", PATCHES, 32),
    "DeiTForImageClassificationWithTeacher": ("DeiT", PATCHES, 32),
    "Dinov2Model": ("Dinov2", DINO | {"mlp_ratio": 2}, 56),
    "SiglipVisionModel": ("SiglipVision", PATCHES, 32), "CLIPVisionModelWithProjection": ("CLIPVision", PATCHES, 32),
    "SegformerForSemanticSegmentation": ("Segformer", STAGES | {
        "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 32, "num_labels": 5}, 64),
    "DetrForObjectDetection": ("Detr", {
        "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": "", "backbone_config": BACKBONE,
        "d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_queries": 10,
        "num_labels": 5}, 64),
    "DepthAnythingForDepthEstimation": ("DepthAnything", {
        "backbone_config": DINO | {"model_type": "dinov2", "out_indices": [1, 2, 3, 4], "apply_layernorm": True,
                                   "reshape_hidden_states": False},
        "patch_size": 14, "reassemble_hidden_size": 64, "neck_hidden_sizes": [16, 16, 32, 32],
        "fusion_hidden_size": 32, "head_hidden_size": 16}, 56),
}
TEXT = PLAIN | {"vocab_size": 97, "max_position_embeddings": 16, "eos_token_id": 2, "bos_token_id": 1,
                "pad_token_id": 0, "projection_size": 64}


def saved(folder: Path, architecture: str, configuration: Any) -> Any:
    """A model in a directory."""
    import transformers

    return drawn(folder, lambda: getattr(transformers, architecture)(configuration))


def image_of(size: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (size, size, 3), dtype=np.uint8)


def near(found: np.ndarray, wanted: Any, least: float = 0.9995, most: float = 0.02) -> None:
    wanted = wanted.detach().numpy().reshape(found.shape)
    assert np.abs(found - wanted).max() <= most * np.abs(wanted).max()
    assert (found * wanted).sum() / (np.linalg.norm(found) * np.linalg.norm(wanted)) >= least


@pytest.mark.parametrize("architecture", FAMILIES)
def test_images(architecture: str, tmp_path: Path) -> None:
    import torch
    import transformers

    family, arguments, size = FAMILIES[architecture]
    made = saved(tmp_path, architecture, getattr(transformers, f"{family}Config")(**arguments))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({
        "size": {"height": size, "width": size}, "do_normalize": True, "image_mean": [0.5] * 3,
        "image_std": [0.25] * 3}))
    image = image_of(size)
    with ane.load_pretrained(tmp_path, DEVICE) as model, torch.no_grad():
        assert isinstance(model, ImageModel)
        assert len(model.host) == 1  # nothing of the model itself
        found = model.run(image)
        wanted = made(torch.tensor((image.transpose(2, 0, 1)[None] / 255 - 0.5) / 0.25, dtype=torch.float32))
        for name, value in found.items():
            near(value, wanted[name])
        answers(model, image, wanted, architecture)


def answers(model: ImageModel, image: np.ndarray, wanted: Any, architecture: str) -> None:
    """What users ask for, from the same numbers."""
    if "Classification" in architecture:
        assert next(iter(model.classify(image))) == f"LABEL_{int(wanted.logits[0].argmax())}"
    elif "Segmentation" in architecture:
        import torch

        logits = torch.nn.functional.interpolate(wanted.logits, image.shape[:2], mode="bilinear")[0]
        assert (model.segment(image) == logits.argmax(0).numpy()).mean() > 0.97
    elif "Detection" in architecture:
        shares = wanted.logits[0].softmax(-1)[:, :-1]
        found = model.detect(image, float(shares.max()) - 0.05)
        assert found[0].label == f"LABEL_{int(shares.max(0).values.argmax())}"
    elif "Depth" in architecture:
        assert model.depth(image).shape == image.shape[:2]
    else:
        assert model.embed(image).shape == (64,) or architecture == "CLIPVisionModelWithProjection"


@pytest.mark.parametrize("family", ["CLIP", "Siglip"])
def test_two_towers(family: str, tmp_path: Path) -> None:
    import torch
    import transformers

    vision = {key: value for key, value in PATCHES.items() if key != "num_labels"}
    made = saved(tmp_path, f"{family}Model", getattr(transformers, f"{family}Config")(
        text_config=TEXT, vision_config=vision, **({"projection_dim": 32} if family == "CLIP" else {})))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(
        {"size": {"height": 32, "width": 32}, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
    texts, image = [[1, 5, 7, 2], [1, 50, 60, 70, 80, 2]], image_of(32)
    rows = torch.zeros(2, 16, dtype=torch.long)
    for row, text in zip(rows, texts, strict=True):
        row[:len(text)] = torch.tensor(text)
    with ane.load_pretrained(tmp_path, DEVICE) as model, torch.no_grad():
        assert isinstance(model, TowersModel)
        wanted = made(input_ids=rows, pixel_values=torch.tensor(
            image.transpose(2, 0, 1)[None] / 127.5 - 1, dtype=torch.float32))
        near(model.embed(image), wanted.image_embeds[0], 0.999)
        for text, row in zip(texts, wanted.text_embeds, strict=True):
            near(model.embed_text(text), row, 0.999)
        logits = wanted.logits_per_image[0]
        shares = logits.softmax(-1) if family == "CLIP" else logits.sigmoid()
        assert np.abs(model.compare(image, texts) - shares.numpy()).max() < 0.03


def test_sounds(tmp_path: Path) -> None:
    import torch
    import transformers

    made = saved(tmp_path, "Wav2Vec2ForCTC", transformers.Wav2Vec2Config(
        **PLAIN, vocab_size=12, conv_dim=[16, 16, 16], conv_stride=[5, 2, 2], conv_kernel=[10, 3, 3],
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4))
    (tmp_path / "vocab.json").write_text(json.dumps(
        {text: at for at, text in enumerate(("<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefg"))}))
    sound = np.random.default_rng(0).standard_normal(640).astype(np.float32)
    with ane.load_pretrained(tmp_path, DEVICE, lengths=(640,)) as model, torch.no_grad():
        assert isinstance(model, SoundModel)
        wanted = made(torch.tensor((sound - sound.mean()) / np.sqrt(sound.var() + 1e-7))[None]).logits[0]
        found = model.run(sound)["logits"]
        near(found, wanted, 0.9999, 0.005)
        text, = model.transcribe(sound)
        tokens = transformers.Wav2Vec2CTCTokenizer(str(tmp_path / "vocab.json"))
        assert text == tokens.decode(found.argmax(-1).tolist(), skip_special_tokens=True).strip()
        assert set(text) <= set("abcdefg ")
        assert len(list(model.transcribe(np.tile(sound, 3)))) == 3
        assert len(model.run(sound[:500])["logits"]) == len(made(torch.tensor(sound[None, :500])).logits[0])


@pytest.mark.parametrize("family", ["SqueezeBert", "DebertaV2"])
def test_texts_without_rules(family: str, tmp_path: Path) -> None:
    import torch
    import transformers

    sizes = PLAIN | {"vocab_size": 97, "max_position_embeddings": 64, "num_labels": 3}
    own = {"embedding_size": 64} if family == "SqueezeBert" else {
        "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16,
        "norm_rel_ebd": "layer_norm", "share_att_key": True}
    configuration = getattr(transformers, f"{family}Config")(**sizes | own)
    made = saved(tmp_path, f"{family}ForSequenceClassification", configuration)
    tokens = np.random.default_rng(0).integers(5, 90, 11).tolist()
    with ane.load_pretrained(tmp_path, DEVICE, lengths=(16,)) as model, torch.no_grad():
        assert isinstance(model, TextEncoderModel)
        near(model.run(tokens)["logits"], made(torch.tensor([tokens])).logits)


def test_letters_are_written_down_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    monkeypatch.setattr("openane.models.exported.load.DEFAULT_SAMPLES", (640,))
    saved(tmp_path, "Wav2Vec2ForCTC", transformers.Wav2Vec2Config(
        **PLAIN, vocab_size=8, conv_dim=[16, 16, 16], conv_stride=[5, 2, 2], conv_kernel=[10, 3, 3],
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4))
    (tmp_path / "vocab.json").write_text(json.dumps({text: at for at, text in enumerate(("<pad>", "|", *"abcdef"))}))
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes((np.random.default_rng(5).standard_normal(1000) * 3000).astype("<i2").tobytes())
    assert main(["transcribe", str(tmp_path / "sound.wav"), "--model", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [bool(text) and set(text) <= set("abcdef ") for text in document["windows"]] == [True, True]
    assert main(["transcribe", str(tmp_path / "sound.wav"), "--model", str(tmp_path), "--task", "translate"]) == 1
    assert "Whisper" in capsys.readouterr().err


def test_what_cannot_be_loaded_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit", "image_size": 32}))
    with pytest.raises(UnsupportedError, match="names no architecture"):
        ane.load_pretrained(tmp_path, DEVICE)
    (tmp_path / "config.json").write_text(json.dumps(
        {"model_type": "vit", "image_size": 32, "architectures": ["ViTForNothing"]}))
    with pytest.raises(UnsupportedError, match=r"ViTForNothing.*does not have it"):
        ane.load_pretrained(tmp_path, DEVICE)
    (tmp_path / "config.json").write_text(json.dumps(
        {"model_type": "vit", "image_size": 32, "architectures": ["ViTModel"]}))
    with pytest.raises(FormatError, match="transformers cannot load"):
        ane.load_pretrained(tmp_path, DEVICE)
