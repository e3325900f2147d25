# SPDX-License-Identifier: Apache-2.0
"""What tests of `weft prof trace` and `weft prof html` share: runs, and what is in their traces. A test's words are TOP
and WEFT."""
import atexit
import functools
import pathlib
import shutil
import subprocess
import sys
import tempfile

import traces

weft = sys.argv[2]
scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-views-"))
atexit.register(shutil.rmtree, scratch)
TIMES = ("ready", "start", "first", "last", "last_arrival", "wait", "go")


def prof(*words, code=0):
    done = subprocess.run([weft, "prof", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, f"{words}: code {done.returncode}, {done.stderr}"
    return done


def folder_of(name, ranks):
    folder = scratch / name
    folder.mkdir()
    for rank in ranks:
        rank.write(folder)
    return folder


def two_steps(rank):
    """Two steps of a millisecond: a message from rank 0 to 1, a reduction that is hidden, one to which rank 1 comes
    20 us late and which both wait for, a barrier that hides nothing; and spans."""
    r = traces.Rank(rank, 2)
    data, pipe = r.comm("data"), r.comm("pipe", members=2)
    for step in 1, 2:
        at = 1000 * step
        r.span("F0", 0, at + 10, at + 300)
        if rank == 0:
            r.message(pipe, traces.SEND, 1, step, at + 400, at + 401, at + 450, at + 420, at + 460)
        else:
            r.message(pipe, traces.RECEIVE, 0, step, at + 395, at + 395, at + 455, at + 395, at + 456)
        r.span("B0", 0, at + 460, at + 800)
        r.collective(data, 2 * step - 1, "set0 reduce 0", at + 500, at + 502, at + 600, at + 700, at + 700)
        r.collective(data, 2 * step, "set0 reduce 1", at + 800 + 20 * rank, at + 800 + 20 * rank, at + 950, at + 850,
                     at + 951, arrival=at + 820, late=1)
        r.step(step, at, at + 1000)
    return r


def in_flight(rank):
    """A run without steps that was killed: its last operations have not ended, and several are at once."""
    r = traces.Rank(rank, 2)
    comms = [r.comm("a"), r.comm("b", members=2)]
    for i in range(9):
        r.collective(comms[i % 2], i // 2 + 1, "", 100 + i, 100 + i, 0 if i > 6 else 200 + 3 * i,
                     150 if i % 3 else 0, 210 + 3 * i if i % 3 else 0, operation=traces.ALL_GATHER)
    return r


@functools.cache
def steps():
    return folder_of("steps", [two_steps(0), two_steps(1)])


@functools.cache
def runs():
    found = {"steps": steps(),
             "in flight": folder_of("in flight", [in_flight(0), in_flight(1)])}
    real = scratch / "real"
    perf = "perf", "all_reduce", "all_gather", "-b", "8", "-e", "64K", "-f", "16", "-n", "3", "-w", "1"
    subprocess.run([weft, "run", "-n", "2", "--prefix", "none", "--", weft, *perf], check=True, capture_output=True,
                   env={"WEFT_TRACE": str(real)})
    found["real"] = real
    return found


def records_of(folder):
    """rank -> its records as dictionaries; times in us since the first world was opened, None where there is none."""
    names = ("sequence kind operation dtype reduction label comm result number bytes ready start first last "
             "last_arrival late_rank comm_entry messages wait go").split()
    found, monotonic = {}, []
    for path in folder.glob("trace.*.weft"):
        data = path.read_bytes()
        header = traces.HEADER.unpack_from(data)
        header_bytes, record_bytes, capacity, labels, label_bytes, rank = *header[2:7], header[7]
        at = header_bytes + labels * label_bytes
        tick0, ns0, ns_per_tick = header[10:13]
        for i in range(min(capacity, header[9])):
            record = dict(zip(names, traces.RECORD.unpack_from(data, at + i * record_bytes)))
            for name in TIMES:
                tick = record[name]
                record[name] = ns0 / 1000 + (tick - tick0) * ns_per_tick / 1000 if tick else None
            for name in "label", "comm":
                text = data[header_bytes + record[name] * label_bytes:][:label_bytes]
                record[name] = text.split(b"\0")[0].decode()
            found.setdefault(rank, []).append(record)
        monotonic.append(ns0)
    for records in found.values():
        for r in records:
            for name in TIMES:
                r[name] = None if r[name] is None else r[name] - min(monotonic) / 1000
    return found


def operations_of(records):
    return [r for r in records if r["kind"] in (traces.COLLECTIVE, traces.P2P)]
