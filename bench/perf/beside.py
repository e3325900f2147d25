#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures weft and programs of others in turn, and prints how many times faster weft is.

    bench/perf/beside.py --ours 'COMMAND' --peer 'NAME=COMMAND'... [--rounds 15] [--seconds 50] [--timeout 300]
                         [--rows FILE]
    bench/perf/beside.py --rows FILE...

COMMAND of weft is a `weft perf` with `--json -`, ranks and all. A peer is any program that prints a table with the
columns of nccl-tests or fewer: bytes first, microseconds in column --column (default 3), under a heading, a line that
begins with # and has op=OPERATION in it, and in-place if it is. Underscores in names of operations count for nothing.
In a round every command runs once, every second round in the opposite order. --rows keeps what was measured, added to
what is in the file: on a machine that is seldom free, rounds are made a few at a time. Without --ours, what the files
have is printed.

A row stands for one operation, size and placement, near or far, by weft's own probe in that round. The peer of a row
is the one with the least median; in place a peer may as well not be in place. The figure is the median over the rounds
of the peer's time over weft's, and behind it are the quarters: half of the rounds lie between. share is the limit's
time over weft's, if weft was asked for --limits."""
import argparse
import collections
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time

FAR_NS = 160


def name_of(operation):
    return operation.replace("_", "")


def run(command, timeout):
    """The lines of a command. One that does not end is killed with all that it has started."""
    with subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        try:
            out, complaints = process.communicate(timeout=timeout)
        except BaseException as why:  # of a deadline, or of the user
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(why, subprocess.TimeoutExpired):
                sys.exit(f"{command} has not ended after {timeout:g} s")
            raise
    if process.returncode:
        sys.exit(f"{command} ended with code {process.returncode}: {(complaints or out)[-1000:]}")
    return out.splitlines()


def rows_of_weft(lines):
    for line in lines:
        if '{"op":' not in line:
            continue
        row = json.loads(line[line.index("{"):])
        if row["us_median"] is not None:
            yield {"op": name_of(row["op"]), "bytes": row["bytes"], "in_place": row["inplace"],
                   "us": row["us_median"], "probe_ns": row["probe_ns"], "share": row.get("limit_share")}


def rows_of_peer(lines, column):
    op, in_place = None, False
    for line in lines:
        heading = re.match(r"#.*\bop=(\w+)", line)
        if heading:
            op, in_place = name_of(heading[1]), "in-place" in line
        fields = line.split()
        if op and len(fields) >= column and fields[0].isdigit():
            yield {"op": op, "bytes": int(fields[0]), "in_place": in_place, "us": float(fields[column - 1])}


def measure(o):
    """All rows of all rounds, each with its round and who it is of."""
    rows, begin = [], time.time()
    peers = [peer.partition("=")[::2] for peer in o.peer]
    turns = [("weft", o.ours)] + peers
    mark = time.time_ns()  # rounds of one file are told apart by when they were made
    for number in range(o.rounds):
        if number and (time.time() - begin) * (number + 1) / number > o.seconds:
            break
        for who, command in turns if number % 2 == 0 else turns[::-1]:
            lines = run(command, o.timeout)
            found = rows_of_weft(lines) if who == "weft" else rows_of_peer(lines, o.column)
            rows += [dict(row, who=who, round=f"{mark}.{number}") for row in found]
    return rows


def quarters(values):
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def best_peer(times, in_place):
    """Who has the least median, and its times by round."""
    own = {who: by_round for (who, place), by_round in times.items() if place == in_place}
    other = {who: by_round for (who, place), by_round in times.items() if in_place and not place}
    found = list(own.items()) + list(other.items())
    return min(found, key=lambda item: statistics.median(item[1].values()), default=None)


def report(rows):
    ours = collections.defaultdict(dict)
    theirs = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows:
        if row["who"] == "weft":
            far = row["probe_ns"] is not None and row["probe_ns"] > FAR_NS
            ours[row["op"], row["bytes"], row["in_place"], far][row["round"]] = row
    for (op, size, in_place, far), by_round in ours.items():
        for row in rows:
            if row["who"] != "weft" and row["op"] == op and row["bytes"] == size and row["round"] in by_round:
                theirs[op, size, far][row["who"], row["in_place"]][row["round"]] = row["us"]
    print(f"{'operation':14} {'bytes':>9} {'place':3} {'probe':>9} {'rounds':>6} {'weft us':>10} {'peer us':>10}"
          f" {'times':>6} {'quarters':>11} {'share':>5} peer")
    for (op, size, in_place, far), by_round in sorted(ours.items()):
        peer = best_peer(theirs[op, size, far], in_place)
        us = statistics.median(row["us"] for row in by_round.values())
        probe = statistics.median(row["probe_ns"] or 0 for row in by_round.values())
        shares = [row["share"] for row in by_round.values() if row["share"] is not None]
        share = f"{statistics.median(shares):5.2f}" if shares else "    -"
        line = f"{op:14} {size:9} {'in' if in_place else 'out':3} {'far' if far else 'near':4} {probe:4.0f}"
        if not peer:
            print(f"{line} {len(by_round):6} {us:10.2f} {'-':>10} {'-':>6} {'-':>11} {share} -")
            continue
        who, by = peer
        ratios = [us / by_round[r]["us"] for r, us in by.items() if r in by_round]
        low, high = quarters(ratios)
        print(f"{line} {len(ratios):6} {us:10.2f} {statistics.median(by.values()):10.2f}"
              f" {statistics.median(ratios):6.2f} {low:5.2f}-{high:5.2f} {share} {who}")


def read(files):
    rows = []
    for name in files:
        with open(name) as file:
            rows += [json.loads(line) for line in file]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", metavar="COMMAND")
    parser.add_argument("--peer", metavar="NAME=COMMAND", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=50, help="begin no round that would end later")
    parser.add_argument("--timeout", type=float, default=300, help="of one command, in seconds")
    parser.add_argument("--column", type=int, default=3)
    parser.add_argument("--rows", metavar="FILE", nargs="+", default=[])
    o = parser.parse_args()
    if not o.ours and not o.rows:
        parser.error("nothing to measure and nothing to read: --ours or --rows")
    if not o.ours:
        report(read(o.rows))
        return
    rows = measure(o)
    if o.rows:
        with open(o.rows[0], "a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        rows = read(o.rows[:1])
    report(rows)


main()
