#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weft prof trace` shows what is in the traces.  usage: test_events.py TOP WEFT"""
import collections
import functools
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "tests" / "package"))
import tap  # noqa: E402
import traces  # noqa: E402
from views import operations_of, prof, records_of, runs  # noqa: E402


@functools.cache
def events_of(name):
    folder = runs()[name]
    said = prof("trace", folder)
    assert (said.stdout, said.stderr) == ("", f"weft: wrote {folder}/trace.json\n"), said
    text = (folder / "trace.json").read_text()
    assert prof("trace", folder, "--out", "-").stdout == text
    return json.loads(text, parse_constant=lambda word: 1 / 0)["traceEvents"]


def slices_of(events):
    threads = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    return threads


def thread_names(events):
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}


def every_event_has_a_phase_that_viewers_know_and_what_it_needs():
    for name in runs():
        phases = collections.Counter()
        for event in events_of(name):
            phases[event["ph"]] += 1
            assert {"ph", "name", "pid", "tid", "ts"} <= set(event), event
            assert event["ts"] >= 0, event
            if event["ph"] == "X":
                assert event["dur"] >= 0, event
            elif event["ph"] == "C":
                assert all(isinstance(value, (int, float)) and value >= 0 for value in event["args"].values()), event
            elif event["ph"] in "stf":
                assert event["cat"] and event["id"] > 0 and ("bp" in event) == (event["ph"] == "f"), event
            else:
                assert event["ph"] == "M" and event["args"], event
        assert phases["X"] and phases["C"] and phases["s"], (name, phases)


def slices_of_a_thread_do_not_overlap_and_threads_have_names():
    for name in runs():
        events = events_of(name)
        for thread, slices in slices_of(events).items():
            assert thread in thread_names(events), (name, thread)
            slices.sort(key=lambda e: e["ts"])
            for a, b in zip(slices, slices[1:]):
                assert a["ts"] + a["dur"] <= b["ts"] + 1e-6, (name, a, b)


def every_arrow_has_one_start_and_one_end_inside_slices_and_does_not_go_back():
    for name in runs():
        events = events_of(name)
        slices = slices_of(events)
        arrows = collections.defaultdict(list)
        for event in events:
            if event["ph"] in "stf":
                arrows[event["id"]].append(event)
        for points in arrows.values():
            phases = "".join(point["ph"] for point in points)
            assert re.fullmatch("st?f", phases), (name, points)
            assert all(a["ts"] <= b["ts"] for a, b in zip(points, points[1:])), (name, points)
            assert len({(point["cat"], point["name"]) for point in points}) == 1, points
            for point in points:
                assert any(s["ts"] <= point["ts"] < s["ts"] + s["dur"] for s in slices[point["pid"], point["tid"]]), (
                    name, point)


def operations_and_waits_are_slices_where_the_trace_has_them():
    for name, folder in runs().items():
        events = events_of(name)
        tracks = thread_names(events)
        ends = {rank: max(r[key] for r in records for key in ("ready", "last", "go", "wait") if r[key] is not None)
                for rank, records in records_of(folder).items()}
        for rank, records in records_of(folder).items():
            want = collections.Counter()
            for r in operations_of(records):
                start = r["ready"] if r["start"] is None else r["start"]
                last = ends[rank] if r["last"] is None else r["last"]
                want["comm " + r["comm"], round(start, 3), round(last - start, 3)] += 1
                go = ends[rank] if r["go"] is None else r["go"]
                if r["wait"] is not None and go > r["wait"]:
                    want["waiting", round(r["wait"], 3), round(go - r["wait"], 3)] += 1
            for r in records:
                if r["kind"] == traces.SPAN:
                    want["spans", round(r["start"], 3), round(r["last"] - r["start"], 3)] += 1
            got = collections.Counter()
            for (pid, tid), slices in slices_of(events).items():
                track = re.sub(r" \(\d+\)$", "", tracks[pid, tid])
                if pid == rank and track not in ("steps", "computing"):
                    got.update((track, s["ts"], s["dur"]) for s in slices)
            assert near(got, want), (name, rank, got - want, want - got)


def near(got, want):
    """Equal, but for what is rounded, and for the rate of the clock, which is taken from two looks at it."""
    key = lambda item: (item[0][0], item[0][1], item[0][2])  # noqa: E731
    pairs = list(zip(sorted(got.items(), key=key), sorted(want.items(), key=key)))
    return len(got) == len(want) and all(
        a[0] == b[0] and abs(a[1] - b[1]) < 0.005 + 1e-3 * b[1] and abs(a[2] - b[2]) < 0.005 + 1e-3 * b[2] and m == n
        for (a, m), (b, n) in pairs)


def computing_is_what_is_no_waiting_within_steps():
    events = events_of("steps")
    tracks = thread_names(events)
    for rank, records in records_of(runs()["steps"]).items():
        steps = [(r["start"], r["last"]) for r in records if r["kind"] == traces.STEP]
        waits = [(r["wait"], r["go"]) for r in operations_of(records)]
        got = sorted((s["ts"], s["ts"] + s["dur"]) for thread, slices in slices_of(events).items()
                     if thread[0] == rank and tracks[thread] == "computing" for s in slices)
        for us in range(2200):
            at = us + 0.25
            want = any(a <= at < b for a, b in steps) and not any(a <= at < b for a, b in waits)
            assert want == any(a <= at < b for a, b in got), (rank, at)


def arrows_lead_where_they_should():
    events = events_of("steps")
    tracks = thread_names(events)
    by_kind = collections.defaultdict(list)
    arrows = collections.defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            arrows[event["id"]].append(event)
    for points in arrows.values():
        by_kind[points[0]["cat"]].append([(p["pid"], tracks[p["pid"], p["tid"]], p["ts"] % 1000) for p in points])
    assert sorted(by_kind) == ["late", "message", "operation"]
    assert len(by_kind["operation"]) == 12  # three operations of two ranks in two steps
    # Started and finished while computing, hidden; started while computing, waited for; a message that is waited for.
    first = [a for a in by_kind["operation"] if a[0][0] == 0][:3]
    assert [[track for _, track, _ in arrow] for arrow in first] == [
        ["computing", "comm pipe", "waiting"], ["computing", "comm data", "computing"],
        ["computing", "comm data", "waiting"]], first
    for message in by_kind["message"]:
        assert [(rank, track) for rank, track, _ in message] == [(0, "comm pipe"), (1, "comm pipe")], message
    # Rank 0 waited 20 of 150 us for rank 1.
    for late in by_kind["late"]:
        assert [(rank, track) for rank, track, _ in late] == [(1, "comm data"), (0, "comm data")], late
    assert len(by_kind["message"]) == len(by_kind["late"]) == 2


def counters_are_what_is_in_flight():
    for name in "steps", "in flight":
        for rank, records in records_of(runs()[name]).items():
            end = max(r[key] for r in records for key in ("ready", "last", "go", "wait") if r[key] is not None)
            under_way = [(r["start"] if r["start"] is not None else r["ready"], end if r["last"] is None else r["last"],
                          r["bytes"]) for r in operations_of(records)]
            for counter, unit in ("operations in flight", "operations"), ("bytes in flight", "bytes"):
                values = [(e["ts"], e["args"][unit]) for e in events_of(name)
                          if e["ph"] == "C" and e["pid"] == rank and e["name"] == counter]
                assert values == sorted(values, key=lambda v: v[0]) and values[-1][1] == 0, (name, counter)
                for (ts, value), (until, _) in zip(values, values[1:]):
                    if until - ts > 0.02:
                        on = [b for a, z, b in under_way if a < ts + 0.01 < z]
                        assert value == (len(on) if unit == "operations" else sum(on)), (name, rank, counter, ts)


def the_exposed_share_is_that_of_each_step():
    for rank in 0, 1:
        shares = [e["args"]["percent"] for e in events_of("steps")
                  if e["name"] == "exposed share" and e["pid"] == rank]
        # of 1000 us: the message 30 or 60, the second reduction 100
        assert shares == [13 if rank == 0 else 16] * 2 + [0], shares


tap.main(every_event_has_a_phase_that_viewers_know_and_what_it_needs,
         slices_of_a_thread_do_not_overlap_and_threads_have_names,
         every_arrow_has_one_start_and_one_end_inside_slices_and_does_not_go_back,
         operations_and_waits_are_slices_where_the_trace_has_them, computing_is_what_is_no_waiting_within_steps,
         arrows_lead_where_they_should, counters_are_what_is_in_flight, the_exposed_share_is_that_of_each_step)
