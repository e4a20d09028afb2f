"""Compressed models as files that the compiler and others read."""

from __future__ import annotations

from pathlib import Path

from openane.errors import FormatError, UnsupportedError
from openane.graph.mil.files import write_mil
from openane.importers import write_mlpackage
from openane.quantization.api import Quantized
from openane.quantization.onnx_qdq import write_qdq
from openane.quantization.rewrite import opset_of
from openane.quantization.safetensors_file import write_safetensors

COMPILED = (".ane", ".hwx", ".anec")
"""Suffixes of what the compiler writes."""
WRITABLE = (".mlpackage", ".mil", ".onnx", ".safetensors", *COMPILED)
"""Suffixes of what a compressed model can be written as."""


def require_suffix(path: Path) -> None:
    """UnsupportedError for a file of a kind that is not written."""
    if path.suffix not in WRITABLE:
        raise UnsupportedError(f"{path}", "models are not written in this form", limit=", ".join(WRITABLE),
                               found=path.suffix or "no suffix",
                               remedy=f"name it {path.with_suffix('.mlpackage').name}")


def save_quantized(quantized: Quantized, path: str | Path, source: str | Path | None = None) -> tuple[str, ...]:
    """Writes a compressed model: a Core ML package (.mlpackage), MIL text with its weights in NAME.weights beside it
    (.mil), its weights alone (.safetensors), or, for the ONNX file `source` it was read from, ONNX QDQ (.onnx). The
    names of layers that ONNX QDQ keeps as they are; none for other forms.

    UnsupportedError for other suffixes and for forms that ONNX or safetensors have no spelling for; FormatError when it
    cannot be written.
    """
    file = Path(path)
    require_suffix(file)
    if file.suffix in COMPILED:
        raise UnsupportedError(f"{file}", "a program is written by the compiler",
                               remedy="openane.compile(quantized.graph).save(path)")
    if file.suffix == ".onnx":
        if source is None or not is_onnx(Path(source)):
            raise UnsupportedError(f"{file}", "ONNX QDQ is written from an ONNX model", found=str(source or "a graph"),
                                   remedy=f"write {file.with_suffix('.mlpackage').name}, or begin with an .onnx file")
        return write_qdq(source, quantized, file)
    if file.suffix == ".safetensors":
        write_safetensors(quantized, file)
    elif file.suffix == ".mil":
        _write_mil(quantized, file)
    else:
        write_mlpackage(quantized.graph, file, opset_of(quantized.graph))
    return ()


def is_onnx(path: Path) -> bool:
    """Whether a file is called an ONNX model."""
    return path.suffix == ".onnx"


def _write_mil(quantized: Quantized, file: Path) -> None:
    try:
        write_mil(quantized.graph, file, opset_of(quantized.graph), ".weights")
    except OSError as error:
        raise FormatError(f"{file} cannot be written: {error.strerror or error}") from None
