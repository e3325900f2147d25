# SPDX-License-Identifier: Apache-2.0
"""Writes token files from the descriptions of the formats alone, with nothing of weft: for tests.

    write_tokens.py megatron STEM TYPE LENGTHS SEED    LENGTHS: sequences by commas, documents by slashes: 3,4/5
    write_tokens.py llmc FILE COUNT SEED

Token i is (i * SEED + i // 7) modulo what the type holds, from its lowest number on."""

import struct
import sys

TYPES = {"u8": (1, "B"), "i8": (2, "b"), "i16": (3, "h"), "i32": (4, "i"), "i64": (5, "q"), "u16": (8, "H")}
MOST = {"u8": 1 << 8, "i8": 1 << 7, "i16": 1 << 15, "i32": 1 << 31, "i64": 1 << 31, "u16": 1 << 16}


def tokens(kind, count, seed):
    return [(i * seed + i // 7) % MOST[kind] for i in range(count)]


def megatron(stem, kind, lengths, seed):
    code, letter = TYPES[kind]
    documents = [[int(n) for n in d.split(",") if n] for d in lengths.split("/")]
    sequences = [n for d in documents for n in d]
    borders, offsets, at = [0], [], 0
    for d in documents:
        borders.append(borders[-1] + len(d))
    for n in sequences:
        offsets.append(at)
        at += n * struct.calcsize("<" + letter)
    with open(stem + ".bin", "wb") as f:
        f.write(struct.pack("<%d%s" % (sum(sequences), letter), *tokens(kind, sum(sequences), seed)))
    with open(stem + ".idx", "wb") as f:
        f.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(sequences), len(borders)))
        f.write(struct.pack("<%di" % len(sequences), *sequences))
        f.write(struct.pack("<%dq" % len(offsets), *offsets))
        f.write(struct.pack("<%dq" % len(borders), *borders))


def llmc(path, count, seed):
    with open(path, "wb") as f:
        f.write(struct.pack("<256i", 20240520, 1, count, *[0] * 253))
        f.write(struct.pack("<%dH" % count, *tokens("u16", count, seed)))


if sys.argv[1] == "megatron":
    megatron(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
else:
    llmc(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
