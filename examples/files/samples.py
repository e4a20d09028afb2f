"""Ten files of as many kinds, without their names."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import tarfile
import wave
import zlib

PYTHON = '''"""Counts words."""
import sys
from collections import Counter


def main() -> None:
    counts = Counter(word.lower() for line in sys.stdin for word in line.split())
    for word, count in counts.most_common(10):
        print(f"{count:6d} {word}")


if __name__ == "__main__":
    main()
'''
C = '''#include <stdio.h>
#include <stdlib.h>

/* The greatest common divisor. */
static unsigned gcd(unsigned a, unsigned b)
{
    while (b) {
        unsigned rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s A B\\n", argv[0]);
        return EXIT_FAILURE;
    }
    printf("%u\\n", gcd(strtoul(argv[1], NULL, 10), strtoul(argv[2], NULL, 10)));
    return EXIT_SUCCESS;
}
'''
HTML = '''<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Tide table</title>
<style>td { padding: 0 1em; } th { text-align: left; }</style></head>
<body><h1>Tide table</h1>
<table><tr><th>High</th><th>Low</th></tr><tr><td>06:12</td><td>12:31</td></tr></table>
</body></html>
'''
SHELL = '''#!/bin/sh
# Copies what changed today to the backup.
set -eu
target=${1:?usage: backup FOLDER}
find . -type f -mtime -1 -print | while read -r file; do
    mkdir -p "$target/$(dirname "$file")"
    cp -p "$file" "$target/$file"
done
echo "copied to $target"
'''
MAKE = '''CC = gcc
CFLAGS = -O2 -Wall -Wextra
OBJECTS = main.o gcd.o

all: gcd

gcd: $(OBJECTS)
\t$(CC) $(CFLAGS) -o $@ $^

%.o: %.c
\t$(CC) $(CFLAGS) -c -o $@ $<

clean:
\trm -f gcd $(OBJECTS)

.PHONY: all clean
'''


def made() -> dict[str, bytes]:
    """Contents by a word for what they are."""
    records = {"station": "north", "readings": [{"hour": hour, "level": 1.5 + hour % 7 / 4} for hour in range(24)]}
    return {"a script in Python": PYTHON.encode(), "a program in C": C.encode(), "a page": HTML.encode(),
            "a shell script": SHELL.encode(), "a makefile": MAKE.encode(),
            "readings": json.dumps(records, indent=2).encode(), "a picture": _picture(), "a sound": _sound(),
            "an archive": _archive(), "a database": _database()}


def _picture() -> bytes:
    """A PNG of 64 by 64 grey pixels."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
    size = (64).to_bytes(4, "big")
    rows = b"".join(bytes([0, *((row * column) % 256 for column in range(64))]) for row in range(64))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size + size + bytes([8, 0, 0, 0, 0])) + chunk(
        b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _sound() -> bytes:
    """A WAV file of a tenth of a second."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16000)
        sound.writeframes(b"".join((1000 * (number % 40)).to_bytes(2, "little") for number in range(1600)))
    return file.getvalue()


def _archive() -> bytes:
    """A compressed tar."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("count.py")
        member.size = len(PYTHON)
        archive.addfile(member, io.BytesIO(PYTHON.encode()))
    return gzip.compress(file.getvalue(), mtime=0)


def _database() -> bytes:
    """An SQLite database of one table."""
    with sqlite3.connect(":memory:") as database:
        database.execute("create table readings (hour integer, level real)")
        database.executemany("insert into readings values (?, ?)", [(hour, hour / 4) for hour in range(24)])
        return database.serialize()
