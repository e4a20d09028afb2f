"""Searches a hundred sentences by meaning, with all-MiniLM-L6-v2 on the engine.

    python examples/minilm/search.py "music in the evening"
    python examples/minilm/search.py --check            how close the embeddings are to float32
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import openane as ane

SENTENCES = Path(__file__).with_name("sentences.txt")
QUERY = "the weather is getting colder"
SHOWN = 5


def main() -> int:
    """Prints the nearest sentences; 1 when the weights are not installed."""
    options = arguments()
    missing = [name for name in ("safetensors", "scipy", "tokenizers") if find_spec(name) is None]
    if missing:
        print(f"this example needs {' and '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        return 1
    from encoder import SentenceEncoder
    from weights import INSTALL, model_folder
    folder = model_folder()
    if folder is None:
        print(f"the weights are not installed: {INSTALL}", file=sys.stderr)
        return 1
    encoder = SentenceEncoder(folder, options.tokens)
    describe(encoder.model)
    sentences = SENTENCES.read_text().splitlines()
    start = time.perf_counter()
    known = encoder.encode(sentences, options.device)
    print(f"{len(sentences)} sentences, {(time.perf_counter() - start) / len(sentences) * 1000:.0f} ms each\n")
    if options.check:
        compare(folder, encoder.tokenizer, sentences, known)
        return 0
    query = encoder.encode([options.query], options.device)[0]
    print(f"nearest to {options.query!r}")
    for index in np.argsort(-(known @ query))[:SHOWN]:
        print(f"  {known[index] @ query:.3f}  {sentences[index]}")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Searches a hundred sentences by meaning.")
    parser.add_argument("query", nargs="?", default=QUERY)
    parser.add_argument("--tokens", type=int, default=64, help="longest sentence, in tokens (default 64)")
    parser.add_argument("--device", default="simulator?arithmetic=fast", help="where it runs")
    parser.add_argument("--check", action="store_true", help="compare with float32 instead of searching")
    return parser.parse_args()


def describe(model: ane.Model) -> None:
    """Where every part of the model runs."""
    size = len(model.program.constants) / 2**20
    print(f"MiniLM-L6: {len(model.program.tasks)} tasks, {size:.0f} MiB of weights, "
          f"{len(model.host_operations)} operations of the graph on the host; before it, on the host: "
          "tokens looked up in the word table")


def compare(folder: Path, tokenizer: object, sentences: list[str], found: np.ndarray) -> None:
    """The embeddings beside numpy float32."""
    from measures import cosines, neighbours, spearman
    from reference import embeddings
    wanted = embeddings(folder, token_numbers(tokenizer, sentences))
    same, decided = neighbours(wanted, found)
    print(f"cosine to float32            {cosines(wanted, found).min():.6f} at worst")
    print(f"rank correlation of pairs    {spearman(wanted, found):.6f}")
    print(f"same nearest neighbour       {same} of the {decided} sentences where it is decided by more than the error")


def token_numbers(tokenizer: object, sentences: list[str]) -> list[list[int]]:
    """The tokens of each sentence, without padding."""
    encoded = tokenizer.encode_batch(sentences)  # type: ignore[attr-defined]
    return [[number for number, counts in zip(each.ids, each.attention_mask, strict=True) if counts]
            for each in encoded]


if __name__ == "__main__":
    sys.exit(main())
