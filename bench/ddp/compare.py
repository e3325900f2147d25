#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains one GPT by weft and by PyTorch DDP on gloo, on two hosts of `weft hosts` with a link of the same rate, and
prints one table: the step, the same step without communication, and what of the communication was exposed.

    bench/ddp/compare.py [--weft build/bench/weft] [--python /usr/bin/python3] [--rate 1gbit] [--congestion cubic]
                         [--microbatches 1] [--rounds 3]

Needs a Python with torch (Debian: python3-torch) and what `weft hosts` needs. The two take turns, each round anew.
Within a round, blocks of steps with and without communication stand side by side, and what the former take longer is
the median over pairs of blocks, since cores may be slow for a while; the table has the medians over rounds. Both
multiply in fp32 by the system's BLAS on one thread, with the kernels for this processor.
Without communication means: weft, the computing of its steps without overlap; PyTorch, steps in no_sync(); each of the
slowest rank. Buckets are of one size; weft's last one is made smaller. weft's optimizer is sharded; DDP's is not:
every rank updates everything. With ZeRO it is sharded, and each rank sends what it has updated when all of its step is
done."""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

SHAPE = {"layers": 6, "hidden": 256, "ffn": 640, "heads": 4, "sequence": 128}
SAMPLES, HOSTS = 8, 2  # in a step of each host
BUCKET_ELEMENTS, LAST_ELEMENTS, STEPS = 400_000, 100_000, 48


def core_type():
    """OpenBLAS knows few processors by name, and takes its slowest kernels for others. weft sets this by itself."""
    flags = set(next(line for line in open("/proc/cpuinfo") if line.startswith("flags")).split())
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
        return "SkylakeX"
    return "Haswell" if {"avx2", "fma"} <= flags else None


def run(o, *words):
    """The objects of JSON that rank 0 prints."""
    env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if core_type():
        env.setdefault("OPENBLAS_CORETYPE", core_type())
    hosts = [o.weft, "hosts", "--hosts", HOSTS, "--rate", o.rate, "--congestion", o.congestion, "--timeout", 100,
             "--torch-env", "--prefix", "none", "--", *words]
    words = o.before.split() + [str(word) for word in hosts]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with code {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def weft(o):
    s = SHAPE
    *_, end = run(o, o.weft, "gpt", "--num-layers", s["layers"], "--hidden-size", s["hidden"], "--ffn-hidden-size",
                  s["ffn"], "--num-attention-heads", s["heads"], "--seq-length", s["sequence"], "--micro-batch-size",
                  SAMPLES // o.microbatches, "--global-batch-size", SAMPLES * HOSTS, "--ddp-bucket-size",
                  BUCKET_ELEMENTS, "--last-bucket-size", LAST_ELEMENTS, "--lr", "1e-3", "--mock-data", "--split", "1,0",
                  "--train-iters", STEPS, "--overlap", "compare", "--json", "-")
    c = end["summary"]["comparison"]
    alone = c["forward_ms"] + c["backward_ms"] + c["optimizer_ms"]
    return alone, c["exposed_ms"], end["summary"]["params_total"]


def torch(o, optimizer):
    words = [word for name, value in SHAPE.items() for word in ("--" + name, value)]
    end, = run(o, o.python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "ddp.py"), *words,
               "--micro-batch", SAMPLES // o.microbatches, "--microbatches", o.microbatches, "--bucket-bytes",
               4 * BUCKET_ELEMENTS, "--steps", STEPS, "--optimizer", optimizer)
    return end["alone"], end["exposed"], end["parameters"]


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    return f"{os.cpu_count()} cores of {model}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser.add_argument("--weft", default=os.path.join(top, "build/bench/weft"))
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--congestion", default="cubic", help="control of TCP on the links")
    parser.add_argument("--microbatches", type=int, choices=(1, 2, 4, 8), default=1,
                        help="of a step; more of them leave less computing to hide the same bytes behind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", default="", help="what to start each measurement by, such as: taskset -c 0,1")
    o = parser.parse_args()
    ways = {"weft": weft, "DDP": lambda o: torch(o, "adam"), "DDP + ZeRO": lambda o: torch(o, "zero")}
    rows = {name: [] for name in ways}
    for number in range(o.rounds):
        for name, way in ways.items():
            rows[name].append(way(o))
            print(f"round {number + 1}, {name}: {rows[name][-1][0]:.0f} ms, and {rows[name][-1][1]:.0f} exposed",
                  file=sys.stderr)
    print(f"{datetime.date.today()}, {machine()}, {HOSTS} hosts at {o.rate} by {o.congestion}, "
          f"microbatches: {o.microbatches}, {rows['weft'][0][2]} parameters\n")
    print("| ms, median of rounds | step | without communication | exposed | step to weft's | exposed to weft's |")
    print("|---|---|---|---|---|---|")
    medians = {name: [statistics.median(column) for column in zip(*got)] for name, got in rows.items()}
    weft_alone, weft_exposed, _ = medians["weft"]
    for name, (alone, exposed, _) in medians.items():
        print(f"| {name} | {alone + exposed:.0f} | {alone:.0f} | {exposed:.0f} | "
              f"{(alone + exposed) / (weft_alone + weft_exposed):.2f} | {exposed / weft_exposed:.2f} |")


if __name__ == "__main__":
    main()
