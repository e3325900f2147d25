#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weft prof trace` and `weft prof html` show what is in the traces.  usage: test_views.py TOP WEFT"""
import collections
import functools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

top, weft = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(top / "tests" / "package"))
import tap  # noqa: E402
import traces  # noqa: E402

scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-views-"))
SVG = "{http://www.w3.org/2000/svg}"
TIMES = ("ready", "start", "first", "last", "last_arrival", "wait", "go")
STATES = ("computing only", "hidden", "exposed", "idle")


def prof(*words, code=0):
    done = subprocess.run([weft, "prof", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, f"{words}: code {done.returncode}, {done.stderr}"
    return done


# ---- runs ----

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
def runs():
    found = {"steps": folder_of("steps", [two_steps(0), two_steps(1)]),
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


# ---- trace events ----

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


# ---- the page ----

def page_of(folder, *words):
    return prof("html", folder, "--out", "-", *words).stdout


def timelines(page):
    found = []
    for frame in page.iter("div"):
        if "timeline" in (frame.get("class") or "").split():
            picture = frame.find(SVG + "svg")
            parts = {part.get("class"): part for part in picture.findall(SVG + "svg")}
            found.append((float(frame.get("data-ms")), picture, parts))
    return found


def groups(element, name):
    return [group for group in element.iter(SVG + "g") if group.get("class") == name]


def rects(group):
    return [(*(float(rect.get(key)) for key in ("x", "width")), rect.get("fill"),
             rect.find(SVG + "title").text if rect.find(SVG + "title") is not None else None)
            for rect in group.iter(SVG + "rect")]


def boxes_are_where_the_trace_has_them():
    records = records_of(runs()["steps"])
    for number in 1, 2:
        page = ElementTree.fromstring(page_of(runs()["steps"], "--step", number))
        (ms, _, parts), = timelines(page)
        assert abs(ms - 1) < 1e-6
        width = float(parts["time"].get("width"))
        for rank, row in enumerate(groups(parts["time"], "rank")):
            begin, end = next((r["start"], r["last"]) for r in records[rank]
                              if r["kind"] == traces.STEP and r["number"] == number)

            def pixels(time):
                return (time - begin) / 1000 * width

            for group, kind in ("operations", (traces.COLLECTIVE, traces.P2P)), ("spans", (traces.SPAN,)):
                want = sorted((pixels(r["start"]), pixels(r["last"])) for r in records[rank]
                              if r["kind"] in kind and begin <= r["start"] < end)
                got = sorted((x, x + w) for x, w, *_ in rects(groups(row, group)[0]))
                assert len(want) == len(got) and all(
                    abs(a - b) < 0.02 for one, other in zip(got, want) for a, b in zip(one, other)), (rank, got, want)
            # Rank 0 waits for rank 1 to begin the second reduction, rank 1 for rank 0 to send.
            missing = (800, 820) if rank == 0 else (395, 401)
            (x, w, *_), = rects(groups(row, "late")[0])
            assert abs(x - pixels(begin + missing[0])) < 0.02 and abs(x + w - pixels(begin + missing[1])) < 0.02, (x, w)
            states_are_those_of_the_trace(rects(groups(row, "states")[0]), operations_of(records[rank]), begin, width)


def states_are_those_of_the_trace(stretches, operations, begin, width):
    right = 0
    for x, w, _, tip in stretches:
        assert abs(x - right) < 0.02 and tip.split(":")[0] in STATES, (x, right, tip)
        right = x + w
    assert abs(right - width) < 0.02
    for us in range(1000):
        at = begin + us + 0.5
        communicates = any(r["start"] <= at < r["last"] for r in operations)
        waits = any(r["wait"] <= at < r["go"] for r in operations)
        want = STATES[(2 if communicates else 3) if waits else (1 if communicates else 0)]
        here = (us + 0.5) / 1000 * width
        assert next(tip for x, w, _, tip in stretches if x <= here < x + w).startswith(want), (us, want)


def boxes_are_named_and_say_what_is_known():
    page = ElementTree.fromstring(page_of(runs()["steps"], "--step", 1))
    (_, picture, parts), = timelines(page)
    labels = [text.text for text in parts["labels"].iter(SVG + "text")]
    assert labels.count("set0 reduce 1") == 2 and labels.count("F0 0") == 2, labels
    row = groups(parts["time"], "rank")[0]
    tips = [tip for *_, tip in rects(groups(row, "operations")[0])]
    assert "set0 reduce 1: 0.800 to 0.950 ms (0.150 ms)\nreduce_scatter, 1.0 MiB, comm data of 2\n" \
        "0.000 ms in line, 0.020 waiting for the last rank, 0.130 under way\nrank 1 came last, at 0.820 ms\n" \
        "its caller waited 0.101 ms" in tips, tips
    names = [text.text for text in picture.findall(SVG + "text")]
    assert names == ["rank 0", "rank 1"], names


def a_page_needs_nothing_else():
    for name, folder in runs().items():
        text = page_of(folder)
        ElementTree.fromstring(text)
        assert text.startswith("<!DOCTYPE html>\n"), name
        assert not re.search(r"<link|<img|<object|<iframe|src=|href=|url\(|@import|fetch\(|XMLHttp", text), name
        assert set(re.findall(r"https?://[^\"< ]+", text)) == {"http://www.w3.org/2000/svg"}, name
        assert "prefers-color-scheme: dark" in text


# ---- much of it ----

def many(name, ranks, operations, gap=20):
    """One step of many operations of many ranks, each 12 us long."""
    made = []
    for rank in range(ranks):
        r = traces.Rank(rank, ranks)
        comm = r.comm("data")
        for i in range(operations):
            at = 100 + i * gap + rank % 7
            done = 112 + i * gap
            r.collective(comm, i + 1, f"set0 reduce {i % 100}", at, at, done, done - (1 + rank) / 40, done)
        r.step(1, 50, 200 + operations * gap)
        made.append(r)
    return folder_of(name, made)


def many_operations_are_joined_and_that_is_said():
    folder = many("operations", 4, 20000)
    text = page_of(folder)
    assert len(text) < 5e6, len(text)
    said = re.search(r"What lies within (\S+) ms is joined: (\d+) boxes stand for (\d+) stretches", text)
    (_, _, parts), = timelines(ElementTree.fromstring(text))
    boxes = [rect for name in ("states", "spans", "operations") for group in groups(parts["time"], name)
             for rect in group.iter(SVG + "rect")]
    assert len(boxes) == int(said[2]) <= 12000, (len(boxes), said[0])
    operations = 0
    for row in groups(parts["time"], "rank"):
        for *_, tip in rects(groups(row, "operations")[0]):
            operations += int(re.match(r"(\d+), from set0 reduce \d+ to |", tip)[1] or 1)
    assert operations == 4 * 20000, operations
    assert int(said[3]) >= operations


def of_many_ranks_some_are_left_out_and_that_is_said():
    folder = many("ranks", 200, 10)
    text = page_of(folder)
    page = ElementTree.fromstring(text)
    assert "64 of 200 ranks are shown, here and below" in text and "136 are left out" in text, "not said"
    (_, picture, parts), = timelines(page)
    shown = [int(name.text.split()[1]) for name in picture.findall(SVG + "text")]
    assert shown == sorted(set(shown)) and len(shown) == 64 == len(groups(parts["time"], "rank")), shown
    # Waits are the longer the higher the rank: of those 32 are there, and 32 of the others at even distances.
    assert set(range(168, 200)) <= set(shown) and min(shown) == 0, shown
    assert {b - a for a, b in zip(shown, shown[1:])} == {1, 5, 6}, shown
    bars = [group for group in groups(page, "times")]
    assert len(bars) == 65
    few = ElementTree.fromstring(page_of(runs()["steps"]))
    assert len(groups(few, "times")) == 3 and "left out" not in page_of(runs()["steps"])


def wrong_use_is_told_and_leaves_files_alone():
    folder = runs()["steps"]
    out = scratch / "kept.html"
    out.write_text("kept")
    for words, code, why in (
            (("html",), 2, "weft: of which folder? (see weft prof html --help)\n"),
            (("trace", folder, folder), 2, f"weft: '{folder}' is one word too many (see weft prof trace --help)\n"),
            (("html", folder, "--step", "7", "--out", out), 2, f"weft: --step 7: '{folder}' has no such step\n"),
            (("html", folder, "--step", "1x", "--out", out), 2, "weft: --step is '1x', not a number\n"),
            (("html", folder, "--step", "1-2", "--out", out), 2, "weft: --step is '1-2', not a number\n"),
            (("html", scratch / "nowhere", "--out", out), 1, "nowhere"),
            (("trace", folder, "--out", "/dev/full"), 1, "weft: cannot write '/dev/full': No space left on device\n"),
            (("html", folder, "--out", "/dev/full"), 1, "weft: cannot write '/dev/full': No space left on device\n")):
        said = prof(*words, code=code).stderr
        assert why in said and said.count("\n") == 1, (words, said)
    assert out.read_text() == "kept"


def a_file_that_was_cut_off_is_told_of_in_every_view():
    whole = runs()["steps"]
    folder = scratch / "cut"
    shutil.copytree(whole, folder)
    path = folder / "trace.0.weft"
    data = path.read_bytes()
    path.write_bytes(data[:-traces.COMMS * traces.COMM.size])
    note = f"trace.0.weft is cut off: {path.stat().st_size} of {len(data)} bytes; its comms are missing"
    before, after = (json.loads(prof("report", of, "--json").stdout) for of in (whole, folder))
    assert before["budget"]["hidden_ms"] == after["budget"]["hidden_ms"], (before, after)
    for report, known in (before, True), (after, False):
        assert [r["late_of"] > 0 for r in report["by_rank"]] == [known] * 2, report
        assert (report["order_differs"] is not None) == known, report
        assert [o["busbw"] is not None for o in report["operations"] if o["kind"] != "p2p"] == [known] * 2, report
    texts = [prof("report", folder).stdout, json.dumps(after["notes"]), prof("html", folder, "--out", "-").stdout,
             prof("trace", folder, "--out", "-").stdout]
    assert all(note in text for text in texts), texts
    assert "is cut off" not in prof("report", whole).stdout


# ---- a browser ----

@functools.cache
def browser():
    for name in "chromium", "chromium-browser", "google-chrome", "chrome":
        if shutil.which(name):
            return name
    raise tap.Skip("there is no Chromium")


def browse(page, *flags):
    """What Chromium makes of a page."""
    words = [browser(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch / 'browser'}", *flags]
    try:
        done = subprocess.run([*words, f"file://{page}"], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        raise tap.Skip("Chromium does not come to an end here") from None
    if done.returncode:
        raise tap.Skip(f"Chromium does not run here: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def dom(text, script=""):
    """The page as it is in a browser once @p script has run; what went wrong is in its title."""
    page = scratch / "page.html"
    watch = "<script>window.onerror = message => { document.title = 'failed: ' + message; };</script></head>"
    page.write_text(text.replace("</head>", watch).replace("</body>", f"<script>{script}</script></body>"))
    shown = browse(page, "--dump-dom")
    title = re.search("<title>.*?</title>", shown, re.S)[0]
    assert "failed: " not in title, title
    return shown


def a_browser_opens_the_page_and_its_timeline_zooms():
    text = page_of(runs()["steps"], "--step", 2)
    still = dom(text)
    assert still.count("<button>") == 5, still.count("<button>")
    click = "for (const n of [0, 0, 3]) document.querySelectorAll('button')[n].click();"
    zoomed = dom(text, click)
    # Twice half of it around the middle, then a quarter of that to the right, of 1110 pixels.
    box = re.search(r'<svg class="time"[^>]* viewBox="(\S+) 0 (\S+) ', zoomed)
    assert abs(float(box[1]) - 1110 * (0.375 + 0.25 / 4)) < 0.01 and abs(float(box[2]) - 1110 / 4) < 0.01, box[0]
    labels = re.search(r'<svg class="labels".*?</svg>', zoomed, re.S)[0]
    assert "set0 reduce 0" in labels and "F0 0" not in labels, labels
    ticks = re.findall(r">([\d.]+) ms<", re.search(r'<svg class="axis".*?</svg>', zoomed, re.S)[0])
    assert all(0.4375 <= float(tick) <= 0.6875 for tick in ticks) and len(ticks) > 4, ticks
    again = dom(text, click + "document.querySelectorAll('button')[4].click();")
    assert re.search(r'viewBox="0 0 1110 ', again)
    assert re.search(r'<svg class="labels".*?</svg>', again, re.S)[0] == \
        re.search(r'<svg class="labels".*?</svg>', still, re.S)[0]


def a_browser_shows_the_page_in_the_light_and_in_the_dark():
    page = scratch / "page.html"
    page.write_text(page_of(runs()["steps"]))
    look = "<script>document.title = getComputedStyle(document.body).backgroundColor + ' ' + \
getComputedStyle(document.querySelector('.timeline rect')).fill;</script></body>"
    page.write_text(page.read_text().replace("</body>", look))
    for scheme, colour in (1, "rgb(255, 255, 255)"), (0, "rgb(24, 26, 28)"):
        shown = browse(page, f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom")
        assert f"<title>{colour} {colour}</title>" in shown, (scheme, re.search("<title>.*</title>", shown)[0])


try:
    tap.main(every_event_has_a_phase_that_viewers_know_and_what_it_needs,
             slices_of_a_thread_do_not_overlap_and_threads_have_names,
             every_arrow_has_one_start_and_one_end_inside_slices_and_does_not_go_back,
             operations_and_waits_are_slices_where_the_trace_has_them, computing_is_what_is_no_waiting_within_steps,
             arrows_lead_where_they_should, counters_are_what_is_in_flight, the_exposed_share_is_that_of_each_step,
             boxes_are_where_the_trace_has_them, boxes_are_named_and_say_what_is_known, a_page_needs_nothing_else,
             many_operations_are_joined_and_that_is_said, of_many_ranks_some_are_left_out_and_that_is_said,
             a_file_that_was_cut_off_is_told_of_in_every_view, wrong_use_is_told_and_leaves_files_alone,
             a_browser_opens_the_page_and_its_timeline_zooms, a_browser_shows_the_page_in_the_light_and_in_the_dark)
finally:
    shutil.rmtree(scratch)
