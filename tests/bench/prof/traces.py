# SPDX-License-Identifier: Apache-2.0
"""Makes up trace files as libcomm/include/weft/trace.h describes them, with times in microseconds."""
import struct

HEADER = struct.Struct("<Q6I2i3Qd64s32s64s3Q2I")
RECORD = struct.Struct("<Q4B2Ii7QiHH2Q")
COMM = struct.Struct("<2I2iQ2I")
LABELS, COMMS, LABEL_BYTES = 256, 8, 64
TICK0, NS0 = 1_000_000_007, 5_000_000_000
COLLECTIVE, P2P, SPAN, STEP, MESSAGE = 1, 2, 3, 4, 5
ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER = 0, 1, 2
SEND, RECEIVE = 0, 1
PENDING = 1


class Rank:
    """One rank's file, before it is written. A tick is half a nanosecond."""

    def __init__(self, rank, size, host="one"):
        self.rank, self.size, self.host = rank, size, host
        self.labels, self.comms, self.records = [""], [(0,) * 7], []

    def label(self, text):
        if text not in self.labels:
            self.labels.append(text)
        return self.labels.index(text)

    def comm(self, name, rank=None, size=None, members=1):
        rank, size = self.rank if rank is None else rank, size or self.size
        self.comms.append((self.label(name), 1, rank, size, members, self.label("made-up"), 0))
        return len(self.comms) - 1

    def put(self, kind, label="", operation=0, comm=0, result=0, number=0, bytes=0, times=(0,) * 5, late=-1, messages=0,
            wait=0, go=0):
        ticks = [TICK0 + round(us * 2000) if us else 0 for us in (*times, wait, go)]
        self.records.append((kind, operation, 0, 0, self.label(label), self.comms[comm][0], result, number, bytes,
                             *ticks[:5], late, comm, messages, *ticks[5:]))

    def collective(self, comm, number, label, ready, start, last, wait=0, go=0, operation=REDUCE_SCATTER, arrival=0,
                   late=-1, bytes=1 << 20):
        self.put(COLLECTIVE, label, operation, comm, 0 if last else PENDING, number, bytes,
                 (ready, start, start, last, arrival), late, 0, wait, go)

    def message(self, comm, operation, peer, number, ready, start, last, wait=0, go=0, bytes=4096):
        self.put(P2P, "", 0, comm, 0, 0, bytes, (ready, start, start, last, 0), -1, 1, wait, go)
        self.put(MESSAGE, "", operation, comm, 0, number, bytes, late=peer)

    def span(self, label, number, begin, end):
        self.put(SPAN, label, number=number, times=(0, begin, 0, end, 0))

    def step(self, number, begin, end):
        self.put(STEP, number=number, times=(0, begin, 0, end, 0))

    def write(self, folder):
        capacity = 1
        while capacity < len(self.records):
            capacity *= 2
        header = HEADER.pack(0x3130656361725457, 2, 4096, RECORD.size, capacity, LABELS, LABEL_BYTES, self.rank,
                             self.size, len(self.records), TICK0, NS0, 0.5, self.host.encode(), b"CLOCK_MONOTONIC",
                             f"{self.host}/{self.rank}".encode(), 1_700_000_000 * 10**9, 0, 0, COMMS, COMM.size)
        ring = b"".join(RECORD.pack(i + 1, *record) for i, record in enumerate(self.records))
        labels = b"".join(text.encode().ljust(LABEL_BYTES, b"\0") for text in self.labels)
        comms = b"".join(COMM.pack(*comm) for comm in self.comms)
        data = header.ljust(4096, b"\0") + labels.ljust(LABELS * LABEL_BYTES, b"\0")
        data += ring.ljust(capacity * RECORD.size, b"\0") + comms.ljust(COMMS * COMM.size, b"\0")
        (folder / f"trace.{self.rank}.weft").write_bytes(data)
