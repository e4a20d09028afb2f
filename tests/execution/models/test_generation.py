"""Texts token by token: sampling, stops, cancellation, conversations, tokenizers, the command."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from networks.language import RandomWeights
from support import checkpoints
from support.language_reference import GROUPED, LLAMA, scores

from openane.cli import main
from openane.errors import FormatError, GenerationError
from openane.models import Buckets, GeneratedToken, LanguageModel, LanguageSettings, Options, Sampling, load
from openane.models.chat import of_folder as template_of
from openane.models.generation import Stops
from openane.models.pieces import Pieces
from openane.models.sampling import Sampler, distribution
from openane.models.text import CachedText
from openane.models.tokenizer import of_json, of_llama2c

DEVICE = "simulator?arithmetic=fast"
SETTINGS = LanguageSettings(Buckets((48,), (8,)))


@pytest.fixture(scope="module")
def model() -> Iterator[LanguageModel]:
    with LanguageModel(LLAMA, RandomWeights(LLAMA), DEVICE, SETTINGS) as made:
        yield made


@pytest.mark.parametrize("target", ["h14", "h16", "h18"])
def test_a_model_for_later_generations_writes_the_same_text(model: LanguageModel, target: str) -> None:
    settings = LanguageSettings(Buckets((48,), (8,)), target=target)
    with LanguageModel(LLAMA, RandomWeights(LLAMA), DEVICE, settings) as later:
        assert numbers(later.stream([5, 17, 3, 60], Options(6))) == numbers(model.stream([5, 17, 3, 60], Options(6)))


def numbers(tokens: Iterator[GeneratedToken]) -> list[int | None]:
    return [token.number for token in tokens]


def test_greedy_text_is_the_references(model: LanguageModel) -> None:
    prompt = [5, 17, 3, 60, 44, 9]
    found = list(model.stream(prompt, Options(12, probabilities=True, alternatives=3)))
    text = prompt + [token.number for token in found if token.number is not None]
    wanted = scores(LLAMA, RandomWeights(LLAMA), text[:-1])[len(prompt) - 1:]
    for token, row in zip(found, wanted, strict=True):
        assert token.number is not None
        assert row.max() - row[token.number] < 0.01 * np.abs(row).max()
        probability = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        assert token.logprob == pytest.approx(np.log(probability[token.number]), abs=0.05)
        assert [number for number, _ in token.alternatives[:1]] == [token.number]
        best = np.log(np.sort(probability)[:-4:-1])
        assert [value for _, value in token.alternatives] == pytest.approx(best, abs=0.05)
    assert [token.finish for token in found[:-1]] == [None] * (len(found) - 1)
    assert found[-1].finish in ("length", "stop")


def test_what_the_cache_holds_is_not_computed_again(model: LanguageModel) -> None:
    prompt = list(range(10, 40))
    first = numbers(model.stream(prompt, Options(4)))
    steps = model.usage.steps
    assert numbers(model.stream(prompt, Options(4))) == first
    assert model.usage.steps - steps == 4
    model.reset()
    assert numbers(model.stream(prompt, Options(4))) == first


def test_a_seed_repeats_a_text(model: LanguageModel) -> None:
    def drawn(seed: int) -> list[int | None]:
        return numbers(model.stream([5, 6], Options(12, Sampling(1.5, seed=seed))))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_a_text_ends_where_the_context_does(model: LanguageModel) -> None:
    found = list(model.stream(list(range(3, 48)), Options(100, Sampling(1.0, seed=4))))
    assert len(found) == 4
    assert found[-1].finish == "length"
    assert len(model.tokens) == model.context


def test_one_text_at_a_time_and_cancellation(model: LanguageModel) -> None:
    stream = model.stream([5, 6, 7], Options(20))
    next(stream)
    with pytest.raises(GenerationError, match="another text is under way"):
        model.stream([5])
    del stream  # forgotten: the model is free
    stop = threading.Event()
    stream = model.stream([5, 6, 7], Options(20), stop.is_set)
    next(stream)
    stop.set()
    assert [token.finish for token in stream] == ["cancelled"]
    stop.set()
    assert [token.finish for token in model.stream(list(range(3, 40)), Options(5), stop.is_set)] == ["cancelled"]
    for tokens, message in (([], "no text to continue"), ([5, 97], "token 97"), ([-1], "token -1")):
        with pytest.raises(GenerationError, match=message):
            list(model.stream(tokens))
    assert len(numbers(model.stream([5], Options(2)))) == 2
    with pytest.raises(GenerationError, match="no tokenizer"):
        model.generate("the cat")
    with pytest.raises(GenerationError, match="how this model talks"):
        model.generate([{"role": "user", "content": "hello"}])
    with pytest.raises(GenerationError, match="all of one kind"):
        model.generate([1.5])  # type: ignore[list-item]


def test_sampling_follows_the_distribution() -> None:
    rng = np.random.default_rng(0)
    wide = rng.standard_normal(50) * 2
    tokens, shares = distribution(wide, Sampling(0.7))
    exact = np.exp(wide / 0.7) / np.exp(wide / 0.7).sum()
    np.testing.assert_allclose(shares, exact[tokens])
    assert (np.diff(shares) <= 0).all()
    kept, shares = distribution(wide, Sampling(0.7, top_k=5))
    assert kept.tolist() == tokens[:5].tolist()
    np.testing.assert_allclose(shares, exact[kept] / exact[kept].sum())
    few, shares = distribution(wide, Sampling(0.7, top_p=0.5))
    assert exact[few].sum() >= 0.5 > exact[few[:-1]].sum()
    drawn = Sampler(Sampling(0.7, top_k=3, seed=1))
    counts = np.bincount([drawn.choose(wide) for _ in range(4000)], minlength=50)
    assert set(np.flatnonzero(counts)) == set(tokens[:3].tolist())
    np.testing.assert_allclose(counts[tokens[:3]] / 4000, exact[tokens[:3]] / exact[tokens[:3]].sum(), atol=0.03)
    assert Sampler(Sampling()).choose(wide) == wide.argmax()
    assert Sampler(Sampling(1e-30)).choose(wide) == wide.argmax()
    assert Sampler(Sampling(1.0, seed=0)).choose(np.array([np.nan, -np.inf, 3.0])) == 2


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"temperature": float("nan")}, {"top_k": -1}, {"top_p": 0.0},
                                   {"top_p": 1.1}, {"seed": -1}])
def test_sampling_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(GenerationError, match=f"{next(iter(wrong))} must be"):
        Sampling(**wrong)  # type: ignore[arg-type]
    with pytest.raises(GenerationError, match="no finite score"):
        Sampler(Sampling()).choose(np.full(3, np.nan))


def test_texts_that_end_a_text_are_held_back() -> None:
    stops = Stops(["END", "stop"])
    assert [stops.add(text) for text in ("a E", "N", "x sto", "p it")] == [
        ("a ", False), ("", False), ("ENx ", False), ("", True)]
    stops = Stops(["xyz"])
    assert stops.add("axy") == ("a", False)
    assert stops.rest() == "xy"


def test_tokenizers(tmp_path: Path) -> None:
    checkpoints.word_tokenizer(tmp_path / "tokenizer.json")
    words = of_json(tmp_path / "tokenizer.json")
    assert words.encode("the cat ran far </s>", names=True) == [3, 4, 11, 12, 2]
    assert words.decode([3, 4, 2]) == "the cat"
    assert words.special == {"<unk>": 0, "<s>": 1, "</s>": 2}
    pieces = checkpoints.llama2c_tokenizer(tmp_path / "tokenizer.bin")
    merged = of_llama2c(tmp_path / "tokenizer.bin")
    found = merged.encode("ab abcde")
    assert [pieces[token].strip("\n") for token in found] == ["<s>", " ab", " abc", "de"]
    assert merged.decode(found) == "ab abcde"
    grin = merged.encode("a\N{GRINNING FACE}h")
    assert grin[2:-1] == [3 + byte for byte in "\N{GRINNING FACE}".encode()]
    stream = Pieces(merged, grin[:1])
    assert [stream.add(token) for token in grin[1:]] == ["a", "", "", "", "\N{GRINNING FACE}", "h"]
    said = "a\N{GRINNING FACE}\N{LATIN SMALL LETTER E WITH ACUTE}h \N{SNOWMAN}"
    row = merged.encode(said)
    for place in (1, 2, 6):  # two characters of several bytes are one row; the text before may end between them
        stream = Pieces(merged, row[:place])
        texts = [stream.add(token) for token in row[place:]]
        assert "".join(texts) == said[(place > 1) + (place > 2):]
        assert stream.rest() == ""
    stream = Pieces(merged, row[:2])
    assert [stream.add(token) for token in (*row[2:5], grin[-1])] == ["", "", "", "\N{REPLACEMENT CHARACTER}h"]
    for broken in (b"", b"\1\0\0\0abc", b"\1\0\0\0" + b"\0\0\0\0\xff\xff\xff\x7f"):
        (tmp_path / "tokenizer.bin").write_bytes(broken)
        with pytest.raises(FormatError, match="no tokenizer of llama2"):
            of_llama2c(tmp_path / "tokenizer.bin")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(FormatError, match="no tokenizer"):
        of_json(tmp_path / "tokenizer.json")


def test_conversations(tmp_path: Path) -> None:
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "the cat"}]
    for special, wanted in ((("<|im_start|>", "<|im_end|>"),
                             "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nthe cat<|im_end|>\n"
                             "<|im_start|>assistant\n"),
                            (("<|begin_of_text|>", "<|start_header_id|>", "<|eot_id|>"),
                             "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
                             "<|start_header_id|>user<|end_header_id|>\n\nthe cat<|eot_id|>"
                             "<|start_header_id|>assistant<|end_header_id|>\n\n"),
                            (("[INST]",), "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nthe cat [/INST]")):
        checkpoints.word_tokenizer(tmp_path / "tokenizer.json", special)
        template = template_of(tmp_path, of_json(tmp_path / "tokenizer.json"))
        assert template is not None
        assert template.text(talk) == wanted
        for wrong in ([], [{"role": "cat", "content": "x"}], [{"role": "user"}]):
            with pytest.raises(FormatError):
                template.text(wrong)
    checkpoints.word_tokenizer(tmp_path / "tokenizer.json")
    assert template_of(tmp_path, of_json(tmp_path / "tokenizer.json")) is None


def test_templates_of_their_own(tmp_path: Path) -> None:
    checkpoints.word_tokenizer(tmp_path / "tokenizer.json")
    tokenizer = of_json(tmp_path / "tokenizer.json")
    for template in ("{{ bos_token }}{% for m in messages %}{{ m.content }}!{% endfor %}",
                     "{{ ''.__class__.__mro__ }}"):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, "bos_token": "<s>"}))
        made = template_of(tmp_path, tokenizer)
        assert made is not None
        if "class" in template:
            with pytest.raises(Exception, match="refuses the conversation"):
                made.text([{"role": "user", "content": "the cat"}])
        else:
            assert made.text([{"role": "user", "content": "the cat"}]) == "<s>the cat!"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{% for %}"}))
    with pytest.raises(FormatError, match="chat template cannot be read"):
        template_of(tmp_path, tokenizer)


def test_the_command_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends the text, not the report of it; a terminal shows what is loaded, and is left clean."""
    checkpoints.llama_directory(tmp_path, GROUPED, RandomWeights(GROUPED))
    decode, calls = CachedText.decode, iter(range(9))

    def interrupted(text: CachedText, token: int) -> np.ndarray:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return decode(text, token)

    monkeypatch.setattr(CachedText, "decode", interrupted)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["generate", str(tmp_path), "--device", DEVICE, "--context", "32", "--prefill", "4", "--tokens",
                 "5,6,7,8,9", "--json"]) == 130
    out, err = capsys.readouterr()
    *lines, summary = [json.loads(line) for line in out.splitlines()]
    assert (len(lines), summary["tokens"], summary["finish"]) == (2, 2, "interrupted")
    assert f"loading {tmp_path}: function 2 of 2: prefill_4" in err
    assert "2 tokens after a prompt of 5" in err.split("\r\x1b[K")[-1]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints.llama_directory(tmp_path, GROUPED, RandomWeights(GROUPED))
    checkpoints.word_tokenizer(tmp_path / "tokenizer.json", ("<|im_start|>", "<|im_end|>"))
    common = ["generate", str(tmp_path), "--device", DEVICE, "--max-tokens", "3", "--context", "32", "--prefill", "4"]
    assert main([*common, "--prompt", "the cat sat on", "--json"]) == 0
    out, err = capsys.readouterr()
    *lines, summary = [json.loads(line) for line in out.splitlines()]
    assert summary["tokens"] == len(lines) <= 3
    assert summary["prompt_tokens"] == 4
    assert summary["functions"]["decode"]["host_operations"] == 0
    assert "tokens/s" in err
    assert "host: new keys and values" in err
    with load(tmp_path, DEVICE, LanguageSettings(Buckets((32,), (4,)))) as model:
        wanted = [token.number for token in model.generate("the cat sat on", Options(3))]
    assert [line["token"] for line in lines] == wanted
    counts = []
    for more in ([], ["--names"], ["--tokenizer", str(tmp_path / "tokenizer.json")]):
        assert main([*common, "--prompt", "the <|im_end|>", "--json", *more]) == 0
        counts.append(json.loads(capsys.readouterr().out.splitlines()[-1])["prompt_tokens"])
    assert counts == [3, 2, 3]  # two unknown words, or the token of that name
    for wrong in (["--chat", "the cat", "--names"], ["--tokens", "1,2", "--names"]):
        assert main([*common, *wrong]) == 1
        assert "--names is about the text of --prompt" in capsys.readouterr().err
    assert main([*common, "--chat", "the cat"]) == 0
    assert main([*common, "--tokens", "1,x"]) == 1
    assert main([*common, "--prompt", "x", "--temperature", "-1"]) == 2
    assert main(["generate", str(tmp_path / "nowhere"), "--prompt", "x"]) == 1
    assert "is not there" in capsys.readouterr().err
