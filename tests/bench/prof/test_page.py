#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weft prof html` shows what is in the traces.  usage: test_page.py TOP WEFT"""
import functools
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "tests" / "package"))
import tap  # noqa: E402
import traces  # noqa: E402
from views import folder_of, operations_of, prof, records_of, runs, scratch, steps  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
STATES = ("computing only", "hidden", "exposed", "idle")


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
    records = records_of(steps())
    for number in 1, 2:
        page = ElementTree.fromstring(page_of(steps(), "--step", number))
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
    page = ElementTree.fromstring(page_of(steps(), "--step", 1))
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
    few = ElementTree.fromstring(page_of(steps()))
    assert len(groups(few, "times")) == 3 and "left out" not in page_of(steps())


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
    text = page_of(steps(), "--step", 2)
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
    page.write_text(page_of(steps()))
    look = "<script>document.title = getComputedStyle(document.body).backgroundColor + ' ' + \
getComputedStyle(document.querySelector('.timeline rect')).fill;</script></body>"
    page.write_text(page.read_text().replace("</body>", look))
    for scheme, colour in (1, "rgb(255, 255, 255)"), (0, "rgb(24, 26, 28)"):
        shown = browse(page, f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom")
        assert f"<title>{colour} {colour}</title>" in shown, (scheme, re.search("<title>.*</title>", shown)[0])


tap.main(boxes_are_where_the_trace_has_them, boxes_are_named_and_say_what_is_known, a_page_needs_nothing_else,
         many_operations_are_joined_and_that_is_said, of_many_ranks_some_are_left_out_and_that_is_said,
         a_browser_opens_the_page_and_its_timeline_zooms, a_browser_shows_the_page_in_the_light_and_in_the_dark)
