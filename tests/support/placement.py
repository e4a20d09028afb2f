"""Where the coefficients of H13 lie, said a second time: channel after channel, as slowly and plainly as can be."""

from __future__ import annotations

from collections.abc import Iterator

from openane.chips.coefficients import Channel

CORES, ALIGNMENT, TABLE = 16, 64, 128


def blocks(channels: int, lanes: int) -> Iterator[tuple[int, int, int]]:
    """Core, lanes and channels of every block in order."""
    remaining, core = channels, 0
    while remaining > 0:
        if core == 0 and remaining < min(channels, CORES * lanes):
            lanes = min(lanes, _left_over_lanes(remaining))
        count = min(lanes, remaining)
        yield core, lanes, count
        remaining -= count
        core = (core + 1) % CORES


def dense_channels(channels: int, rows: int, lanes: int, *, bias: bool = False, table: bool = False) -> list[Channel]:
    """Output channels of `rows` weights each, of an ungrouped convolution or product."""
    cursor = [TABLE // 2 if table else 0] * CORES
    placed: list[Channel] = []
    for core, width, count in blocks(channels, lanes):
        start = cursor[core]
        body = start + (width if bias else 0)
        placed += [Channel(core, body + lane, width, start + lane if bias else None) for lane in range(count)]
        cursor[core] = body + rows * width
    return placed


def grouped_channels(groups: int, channels: int, rows: int, lanes: int, *, bias: bool = False) -> list[Channel]:
    """The same group by group: each group's plane on a core is padded."""
    placed: list[Channel] = []
    start = [0] * CORES
    for _ in range(groups):
        end = list(start)
        for channel in dense_channels(channels, rows, lanes, bias=bias):
            base = start[channel.core]
            moved = Channel(channel.core, base + channel.weights, channel.step,
                            None if channel.bias is None else base + channel.bias)
            placed.append(moved)
            end[channel.core] = max(end[channel.core], moved.weights + (rows - 1) * moved.step + 1)
        start = [_padded(2 * e) // 2 if e != s else s for s, e in zip(start, end, strict=True)]
    return placed


def stream_sizes(channels: list[Channel], rows: int) -> dict[int, int]:
    """Bytes of each core's stream that holds anything, padded. Unused lanes of a last block are included."""
    sizes: dict[int, int] = {}
    for channel in channels:
        last = channel.weights + (rows - 1) * channel.step + 1
        sizes[channel.core] = max(sizes.get(channel.core, 0), _padded(2 * last))
    return sizes


def _left_over_lanes(remaining: int) -> int:
    """The largest power of two that fills all cores."""
    return 1 << max(0, (remaining // CORES).bit_length() - 1)


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
