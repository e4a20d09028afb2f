"""Weight files: what is written reads back, the lax form reads, nothing but FormatError escapes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openane.errors import FormatError
from openane.formats.blob import BLOB_TYPES, BlobWriter, read_blob

WHOLE = [kind for kind in BLOB_TYPES if kind.bits >= 8]
BLOBS = st.lists(st.tuples(st.sampled_from(BLOB_TYPES), st.integers(0, 70), st.randoms(use_true_random=False)),
                 max_size=6)


@given(BLOBS)
def test_written_blobs_read_back(blobs):
    writer = BlobWriter()
    stored = []
    for kind, elements, random in blobs:
        data = random.randbytes(-(-elements * kind.bits // 8))
        stored.append((writer.add(kind.name, data, elements), kind.name, data))
    file = writer.finish()
    for offset, name, data in stored:
        assert offset % 64 == 0
        assert read_blob(file, offset) == (name, data)
    assert struct.unpack_from("<II", file) == (len(blobs), 2)
    if stored:
        assert len(file) == stored[-1][0] + 64 + len(stored[-1][2])


def test_layout_is_the_published_one():
    writer = BlobWriter()
    offsets = [writer.add("fp16", bytes(10)), writer.add("fp32", bytes(80)), writer.add("int8", bytes(3)),
               writer.add("uint4", bytes(3), 5)]
    file = writer.finish()
    assert offsets == [64, 192, 384, 512]
    assert len(file) == 579
    assert struct.unpack_from("<IIQQQ", file, 512) == (0xDEADBEEF, 11, 3, 576, 4)


def test_hand_written_entries_are_read():
    payload = bytes(range(6))
    header = bytearray(64)
    header[0], header[4] = 1, 2
    entry = struct.pack("<IIII", 0xDEADBEEF, 1, len(payload), 0) + struct.pack("<II", 128, 0)
    assert read_blob(bytes(header) + entry.ljust(64, b"\0") + payload, 64) == ("fp16", payload)
    second = bytes(header) + bytes(6) + entry.replace(b"\x80", b"\x86").ljust(64, b"\0") + payload
    assert read_blob(second, 70) == ("fp16", payload), "entries need not be aligned"
    for bits, name in ((8, "int8"), (16, "fp16")):
        lax = bytearray(64)
        lax[0:4], lax[4], lax[10] = b"\xef\xbe\xad\xde", 1, bits
        assert read_blob(bytes(header) + bytes(lax) + payload, 64) == (name, payload)


def test_hand_written_entries_may_follow_each_other():
    chunks = [(8, b"abcdef"), (16, bytes(range(6))), (8, b"xyz")]
    file, offsets = bytearray(struct.pack("<II", 1, 2).ljust(64, b"\0")), []
    for bits, payload in chunks:
        offsets.append(len(file))
        entry = bytearray(64)
        entry[:5], entry[10] = b"\xef\xbe\xad\xde\x01", bits
        file += entry + payload
    for offset, (bits, payload) in zip(offsets, chunks, strict=True):
        assert read_blob(bytes(file), offset) == ("int8" if bits == 8 else "fp16", payload)


@pytest.mark.parametrize(("place", "value", "what"), [
    (4, 1, "version"), (64, 0, "no blob entry"), (68, 99, "dtype"), (72, 4000, "outside"), (72, 3, "multiple"),
    (80, 32, "outside"), (80, 9000, "outside"), (80, 0, "data offset"), (76, 1, "outside"),
])
def test_malformed_fields_are_named(place, value, what):
    writer = BlobWriter()
    writer.add("fp16", bytes(8))
    file = bytearray(writer.finish())
    struct.pack_into("<I", file, place, value)
    with pytest.raises(FormatError, match=what) as error:
        read_blob(bytes(file), 64)
    assert error.value.offset is not None


def test_padding_leaves_whole_elements():
    writer = BlobWriter()
    writer.add("uint6", bytes(3), 4)
    file = bytearray(writer.finish())
    file[64 + 24] = 3
    with pytest.raises(FormatError, match="whole number of uint6"):
        read_blob(bytes(file), 64)


@pytest.mark.parametrize("offset", [-64, 0, 63, 65, 10**12])
def test_offsets_outside_are_refused(offset):
    writer = BlobWriter()
    writer.add("fp16", b"")
    with pytest.raises(FormatError):
        read_blob(writer.finish(), offset)


def test_the_writer_refuses_what_has_no_form():
    with pytest.raises(FormatError, match="int64"):
        BlobWriter().add("int64", bytes(8))
    with pytest.raises(FormatError, match="3 elements of fp16"):
        BlobWriter().add("fp16", bytes(8), 3)


@given(st.binary(max_size=300), st.integers(-10, 400))
def test_random_bytes_raise_nothing_else(data, offset):
    for file in (data, struct.pack("<II", 1, 2).ljust(64, b"\0") + data,
                 struct.pack("<II", 1, 2).ljust(64, b"\0") + struct.pack("<I", 0xDEADBEEF) + data):
        try:
            _, view = read_blob(file, offset)
        except FormatError:
            continue
        assert len(view) <= len(file)
