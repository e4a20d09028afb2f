"""The options of every command that takes a model: how it is compiled."""

from __future__ import annotations

from argparse import ArgumentParser

from openane.chips import DEFAULT_TARGET
from openane.cli.arrays import parse_input
from openane.cli.files import parse_shape


def model_options(parser: ArgumentParser) -> None:
    """Declares --target, --shape, --sample, --allow-host and --no-cache."""
    parser.add_argument("--target", metavar="CHIP", help="machine, chip or generation to compile a model for (default: "
                        f"that of a chip or device that is named, or {DEFAULT_TARGET})")
    parser.add_argument("--shape", metavar="NAME=1x3x224x224", type=parse_shape, action="append", default=[],
                        help="shape of an input the model leaves open; may be repeated")
    parser.add_argument("--sample", metavar="NAME=FILE.npy", type=parse_input, action="append", default=[],
                        help="an input on which to look for numbers that leave fp16; may be repeated")
    parser.add_argument("--allow-host", action="store_true",
                        help="let the host compute what the engine cannot take, between engine programs; it is listed")
    parser.add_argument("--no-cache", action="store_true", help="compile a model even if it was compiled before")
