#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pictures of `weft schedule`, `weft topo` and `weft gpt` show what is there.  usage: test_pictures.py TOP WEFT"""
import collections
import csv
import functools
import itertools
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "tests" / "package"))
import tap  # noqa: E402

machines = pathlib.Path(sys.argv[1]) / "tests" / "data" / "machines"
weft = sys.argv[2]
scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-pictures-"))
SVG = "{http://www.w3.org/2000/svg}"
Box = collections.namedtuple("Box", "left top right bottom")


def run(*words, code=0, **options):
    words = [word if isinstance(word, bytes) else str(word) for word in words]
    done = subprocess.run([weft, *words], capture_output=True, **options)
    if b"built without" in done.stderr:
        raise tap.Skip(done.stderr.decode().strip())
    assert done.returncode == code, f"{words}: code {done.returncode}, {done.stderr.decode(errors='replace')}"
    return done


def draw(*words, **options):
    """The picture that a command draws, inside its borders."""
    done = run(*words, "--svg", "-", **options)
    picture = ElementTree.fromstring(done.stdout)
    assert picture.tag == SVG + "svg"
    stays_inside(picture, words)
    return picture


def box_of(rect):
    x, y, width, height = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
    assert width >= 0 and height >= 0
    return Box(x, y, x + width, y + height)


def points_of(path):
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](\S+?) (-?[\d.e+]+)", path.get("d"))]


def text_box(text):
    """Where a text is in a font of usual width."""
    size, x, y = (float(text.get(name)) for name in ("font-size", "x", "y"))
    width = 0.6 * size * len(text.text)
    left = x - width * {"middle": 0.5, "end": 1}.get(text.get("text-anchor"), 0)
    return Box(left, y - 0.75 * size, left + width, y)


def stays_inside(picture, what):
    left, top, width, height = map(float, picture.get("viewBox").split())
    assert (width, height) == (float(picture.get("width")), float(picture.get("height")))
    boxes = [box_of(rect) for rect in picture.iter(SVG + "rect")]
    boxes += [text_box(text) for text in picture.iter(SVG + "text")]
    boxes += [Box(x, y, x, y) for path in picture.iter(SVG + "path") for x, y in points_of(path)]
    for box in boxes:
        assert box.left >= left - 0.01 and box.top >= top - 0.01, f"{what}: {box}"
        assert box.right <= left + width + 0.01 and box.bottom <= top + height + 0.01, f"{what}: {box} {width} {height}"
    assert boxes[0] == Box(0, 0, width, height), "no background"


def groups(picture, name):
    return [group for group in picture.iter(SVG + "g") if group.get("class") == name]


def texts(element):
    return [text.text for text in element.iter(SVG + "text")]


# ---- schedules ----

SCHEDULES = (
    ("--policy", "1f1b", "-p", 4, "-m", 8),
    ("--policy", "gpipe", "-p", 3, "-m", 5, "--slots-f", 2, "--slots-b", 3),
    ("--policy", "gpipe", "-p", 1, "-m", 1),
    ("--policy", "gpipe", "-p", 4, "-m", 2, "--forward-only"),
    ("--policy", "interleaved", "-p", 4, "-m", 8, "-v", 2),
    ("--policy", "interleaved", "-p", 2, "-m", 4, "-v", 12),
    ("--policy", "interleaved", "-p", 16, "-m", 64, "-v", 2),
    ("--verify", "split"),
)


def actions_of(words):
    rows = csv.DictReader(run("schedule", *words, "--csv", cwd=scratch).stdout.decode().splitlines())
    return [(int(row["stage"]), row["action"], int(row["microbatch"]), int(row["chunk"])) for row in rows
            if row["action"] != "SYNC"]


def drawn_actions(picture):
    """(stage, action, microbatch, chunk) -> its box and its times."""
    found = {}
    for stage, group in enumerate(groups(picture, "stage")):
        assert texts(group)[0] == f"stage {stage}"
        for rect in group.iter(SVG + "rect"):
            tip = re.fullmatch(r"([FBW])(\d+)\.(\d+) of stage (\d+), from (\d+) to (\d+)",
                               rect.find(SVG + "title").text)
            assert int(tip[4]) == stage
            found[stage, tip[1], int(tip[2]), int(tip[3])] = box_of(rect), int(tip[5]), int(tip[6])
    return found


@functools.cache
def schedules():
    (scratch / "split").write_text("stage 0: F0.0 F1.0 B0.0 W0.0 B1.0 W1.0\nstage 1: F0.0 B0.0 F1.0 B1.0 W0.0 W1.0\n")
    return [(words, actions_of(words), draw("schedule", *words, cwd=scratch)) for words in SCHEDULES]


def every_computation_is_a_box_where_and_when_it_runs():
    for words, actions, picture in schedules():
        drawn = drawn_actions(picture)
        assert sorted(drawn) == sorted(a for a in actions if a[1] in "FBW"), words
        bubbles = [box_of(rect) for rect in groups(picture, "bubble")[0].iter(SVG + "rect")]
        slots = max(end for _, _, end in drawn.values())
        slot = (bubbles[0].right - bubbles[0].left) / slots
        for (stage, *_), (box, begin, end) in drawn.items():
            row = bubbles[stage]
            assert (box.top, box.bottom) == (row.top, row.bottom), words
            assert abs(row.left + begin * slot - box.left) < 0.02, words
            assert abs(row.left + end * slot - box.right) < 0.02, words
        assert len(bubbles) == 1 + max(stage for stage, *_ in actions), words
        busy = sum(end - begin for _, begin, end in drawn.values())
        idle = 100 * (1 - busy / slots / len(bubbles))
        assert any(f"{slots} slots, bubble {idle:.2f} %" in text for text in texts(picture)), (words, idle)


def computations_of_a_stage_do_not_overlap():
    for words, _, picture in schedules():
        for _, boxes in itertools.groupby(sorted(drawn_actions(picture).items()), lambda item: item[0][0]):
            boxes = sorted(box for _, (box, *_) in boxes)
            assert all(a.right <= b.left + 0.02 for a, b in zip(boxes, boxes[1:])), words


def every_message_is_an_arrow_from_who_makes_a_tensor_to_who_needs_it():
    for words, actions, picture in schedules():
        drawn, want = drawn_actions(picture), []
        stages = 1 + max(stage for stage, *_ in actions)
        for stage, action, microbatch, chunk in actions:
            if not action.startswith("SEND"):
                continue
            kind = action[-1]
            part = chunk * stages + stage + (1 if kind == "F" else -1)
            made, needed = (drawn[at][0] for at in ((stage, kind, microbatch, chunk),
                                                    (part % stages, kind, microbatch, part // stages)))
            down = part % stages > stage
            want.append((made.right, made.bottom if down else made.top,
                         needed.left, needed.top if down else needed.bottom))
        got = [(*points_of(path)[0], *points_of(path)[1]) for path in groups(picture, "messages")[0].iter(SVG + "path")]
        assert len(got) == len(want), (words, len(got), len(want))
        for arrow, meant in zip(got, want):
            assert all(abs(a - b) < 2.1 for a, b in zip(arrow, meant)), (words, arrow, meant)
            assert abs(arrow[1] - meant[1]) < 0.02 and abs(arrow[3] - meant[3]) < 0.02, (words, arrow, meant)


def numbers_are_in_the_boxes_where_they_fit():
    for words, actions, picture in schedules():
        numbers = [texts(group)[1:] for group in groups(picture, "stage")]
        if words[1] == "interleaved" and words[3] == 16:
            assert not any(numbers), words
            continue
        want = [[str(m) for s, kind, m, _ in actions if s == stage and kind in "FBW"] for stage in range(len(numbers))]
        assert numbers == want, words


def kinds_and_chunks_have_colours_of_their_own():
    picture = draw("schedule", "--policy", "interleaved", "-p", 2, "-m", 4, "-v", 3)
    colours = collections.defaultdict(set)
    for group in groups(picture, "stage"):
        for rect in group.iter(SVG + "rect"):
            kind, chunk = re.match(r"(\w)\d+\.(\d+)", rect.find(SVG + "title").text).groups()
            colours[kind, chunk].add(rect.get("fill"))
    assert len(colours) == 6 and all(len(fills) == 1 for fills in colours.values()), colours
    assert len(set.union(*colours.values())) == 6, colours


def names_are_escaped():
    name = 'a <b> & "c"\'s\x01.txt'
    (scratch / name).write_text("stage 0: F0.0 B0.0\n")
    title = draw("schedule", "--verify", name, cwd=scratch).find(SVG + "title").text
    assert title.startswith('a <b> & "c"\'s\ufffd.txt: p = 1 stage,'), title
    hosts = texts(draw("topo", "--synthetic", "core:2", "--hosts", b'<&">:1,\xff\xc3\xa9'))
    assert '<&">' in hosts and "\ufffd\u00e9" in hosts, hosts


# ---- machines ----

PLANS = [
    ("--synthetic", "package:2 core:4 pu:1", "--tp", 4, "--dp", 2),
    ("--synthetic", "package:2 l3:2 core:8 pu:2", "--hosts", "a:32,b:32,c:32", "--tp", 8, "--pp", 3),
    ("--synthetic", "core:4", "--hosts", "A:9,B:3,A:2," + 63 * "n", "--tp", 5),
    ("--synthetic", "core:16", "--tp", 2, "--cp", 2, "--ep", 2, "--pp", 2, "--etp", 1),
    ("--synthetic", "numa:4 core:64 pu:2", "--tp", 8),
    ("--synthetic", "pu:3"),
    ("--synthetic", "core:1"),
    ("--synthetic", "core:8", "--hosts", ",".join(f"node{i}:8" for i in range(40)), "--tp", 8),
    (),
]
PLANS += [("--xml", machine) for machine in sorted(machines.glob("*.xml"))]
PLANS += [("--xml", machines / "nvidiaDGX2.xml", "--tp", 8)]
PLANS += [("--xml", machines / "AMD-17h-Zen-2xEpyc-7451.xml", "--tp", 4)]


def rank_badges(picture):
    """rank -> its box, colour, and what stands in it."""
    badges = {}
    for group in groups(picture, "rank"):
        rect, words = group.find(SVG + "rect"), texts(group)
        assert int(words[0]) not in badges, f"rank {words[0]} is there twice"
        badges[int(words[0])] = box_of(rect), rect.get("fill"), words[1:]
    return badges


@functools.cache
def plans():
    return [(words, json.loads(run("topo", *words, "--json").stdout), draw("topo", *words)) for words in PLANS]


def is_within(inner, outer):
    return (outer.left <= inner.left and outer.top <= inner.top and inner.right <= outer.right
            and inner.bottom <= outer.bottom)


def is_apart(a, b):
    return a.right <= b.left or b.right <= a.left or a.bottom <= b.top or b.bottom <= a.top


def object_name(plan, index):
    thing = plan["machine"]["objects"][index]
    by_system = thing["kind"] == "PU" and thing["os"] is not None
    return f"{thing['kind']} {thing['os'] if by_system else thing['number']}"


def every_rank_is_there_once_on_its_host_and_on_what_it_runs_on():
    for words, plan, picture in plans():
        badges = rank_badges(picture)
        assert sorted(badges) == list(range(len(plan["ranks"]))), words
        hosts = {}
        for host in groups(picture, "host"):
            cells = [(box_of(rect), text.text) for rect, text in zip(host, list(host)[1:])
                     if rect.tag == SVG + "rect" and text.tag == SVG + "text"]
            hosts[cells[0][1]] = cells
        for rank in plan["ranks"]:
            around = [text for box, text in hosts[rank["host"]] if is_within(badges[rank["rank"]][0], box)]
            assert around[0] == rank["host"], (words, rank, around)
            if rank["object"] is not None:
                assert around[-1] == object_name(plan, rank["object"]), (words, rank, around)
            else:
                assert len(around) == 1, (words, rank, around)


def boxes_are_inside_each_other_or_apart():
    for words, _, picture in plans():
        for host in groups(picture, "host"):
            boxes = [box_of(rect) for rect in host.iter(SVG + "rect")]
            for a, b in itertools.combinations(boxes, 2):
                assert is_within(b, a) or is_within(a, b) or is_apart(a, b), (words, a, b)
        hosts = [box_of(next(host.iter(SVG + "rect"))) for host in groups(picture, "host")]
        assert all(is_apart(a, b) for a, b in itertools.combinations(hosts, 2)), words


def texts_do_not_run_into_each_other():
    for words, _, picture in plans() + schedules():
        boxes = sorted(text_box(text) for text in picture.iter(SVG + "text"))
        widest = max(box.right - box.left for box in boxes)
        for i, a in enumerate(boxes):
            for b in itertools.takewhile(lambda b: b.left < a.left + widest, boxes[i + 1:]):
                assert is_apart(a, b), (words, a, b)


def groups_share_a_colour_and_neighbours_do_not():
    for words, plan, picture in plans():
        badges = rank_badges(picture)
        axis = next((name for name in ("tp", "cp", "dp", "pp") if plan["crosses"][name]["size"] > 1), None)
        if not axis:
            continue
        colours = []
        for group in plan["groups"][axis].split(";"):
            colour = {badges[int(rank)][1] for rank in group.split(",")}
            assert len(colour) == 1, (words, group, colour)
            colours.append(colour.pop())
        assert all(a != b for a, b in zip(colours, colours[1:])), (words, colours)


def every_axis_has_a_line_with_its_groups():
    for words, plan, picture in plans():
        shown = texts(groups(picture, "groups")[0])[4:] if groups(picture, "groups") else []
        for axis, crosses in plan["crosses"].items():
            if crosses["size"] == 1:
                assert axis not in shown, (words, axis)
                continue
            at = shown.index(axis)
            many = "" if crosses["groups"] == 1 else "s"
            assert shown[at + 1] == f"{crosses['groups']} group{many} of {crosses['size']}", (words, shown)
            lines = list(itertools.takewhile(lambda text: re.fullmatch(r"[\d,;]+\u2026?", text), shown[at + 3:]))
            ranks = "".join(lines)
            assert plan["groups"][axis].startswith(ranks.rstrip("\u2026")), (words, axis, ranks)
            assert ranks == plan["groups"][axis] or ranks.endswith("\u2026") and len(lines) == 4, (words, axis, ranks)


# ---- trainings ----

TRAINING = ("--num-layers", 1, "--hidden-size", 32, "--num-attention-heads", 2, "--seq-length", 16, "--train-iters", 25,
            "--micro-batch-size", 2, "--global-batch-size", 8, "--mock-data")


def train(*words, ranks=2):
    page, report = scratch / "page.html", scratch / "report.jsonl"
    run("run", "-n", ranks, "--prefix", "none", "--", weft, "gpt", *TRAINING, *words, "--html", page, "--json", report)
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    return page.read_text(), lines[:-1], lines[-1]["summary"]


def a_page_shows_every_loss_and_the_split_of_time():
    text, steps, summary = train("--overlap-grad-reduce", "--ddp-bucket-size", 5000)
    page = ElementTree.fromstring(text)
    losses, times = page.iter(SVG + "svg")
    for picture in losses, times:
        stays_inside(picture, picture.find(SVG + "title").text)
    curve = points_of(groups(losses, "losses")[0].find(SVG + "path"))[1:]  # the first is there twice
    assert len(curve) == len(steps) == 25
    (x0, y0), (x1, y1) = curve[0], curve[-1]
    first, last = steps[0]["loss"], steps[-1]["loss"]
    for number, ((x, y), step) in enumerate(zip(curve, steps)):
        assert abs(x - (x0 + (x1 - x0) * number / 24)) < 0.02
        assert abs(y - (y0 + (y1 - y0) * (step["loss"] - first) / (last - first))) < 0.02
    bars = [box_of(rect) for rect in groups(times, "times")[0].iter(SVG + "rect")]
    shares = [summary[key] for key in ("compute_ms", "hidden_ms", "exposed_ms", "idle_ms")]
    for bar, share in zip(bars, shares):
        width = (bars[-1].right - bars[0].left) * share / sum(shares)
        assert abs(bar.right - bar.left - width) < 0.05, (bars, shares)
    cells = dict((row[0].text, row[1].text) for row in page.iter("tr"))
    assert cells["weights"] == summary["weights_hash"]
    assert cells["layout"] == "dp2: tensor 1 \u00d7 pipeline 1 \u00d7 data 2", cells
    assert cells["loss"].startswith(f"{summary['loss_first']:.4f} at first, {summary['loss_last10']:.4f} on average")


def a_page_needs_nothing_else():
    text, *_ = train(ranks=1)
    assert text.startswith("<!DOCTYPE html>\n")
    assert not re.search(r"<script|<link|<img|<object|<iframe|src=|href=|url\(|@import", text)
    assert set(re.findall(r"https?://[^\"< ]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not (set(re.findall(r"<(\w+)", text)) & {"script", "link"})


def many_steps_are_joined():
    text, steps, _ = train("--train-iters", 2000, "--num-layers", 1, "--hidden-size", 16, "--micro-batch-size", 1,
                           "--global-batch-size", 1, "--seq-length", 4, ranks=1)
    losses = next(ElementTree.fromstring(text).iter(SVG + "svg"))
    curve = points_of(groups(losses, "losses")[0].find(SVG + "path"))[1:]
    assert len(curve) == math.ceil(len(steps) / 3) and "Each point is the mean of 3 steps." in text, len(curve)


# ---- files ----

def a_picture_goes_where_it_is_told_and_nothing_else_is_said():
    for words in ("schedule", "--policy", "1f1b", "-p", 2, "-m", 2), ("topo", "--synthetic", "core:2"):
        to_stdout = run(*words, "--svg").stdout
        done = run(*words, "--svg", scratch / "picture.svg")
        assert (done.stdout, done.stderr) == (b"", b""), words
        assert (scratch / "picture.svg").read_bytes() == to_stdout == run(*words, "--svg", "-").stdout, words


def what_cannot_be_written_is_said_in_one_line():
    gpt = ("gpt", *TRAINING, "--train-iters", 1)
    for words, option in (("schedule", "--policy", "1f1b", "-p", 2, "-m", 2), "--svg"), (
            ("topo", "--synthetic", "core:2"), "--svg"), (gpt, "--html"):
        for path, why in ("/dev/full", "No space left on device"), ("/nowhere/at/all", "No such file or directory"):
            complaint = run(*words, option, path, code=1).stderr.decode()
            assert f"weft: cannot write '{path}': {why}\n" in complaint, complaint
    for words, why in (
            (("topo", "--synthetic", "core:2", "--json", "--svg"), "--json and --svg cannot both be standard output"),
            ((*gpt, "--json", "-", "--html", "-"), "--json and --html cannot both be standard output"),
            ((*gpt, "--json", "same", "--html", "same"), "--json and --html cannot both be same")):
        assert run(*words, code=2).stderr.decode() == f"weft: {why}\n", words


try:
    tap.main(every_computation_is_a_box_where_and_when_it_runs, computations_of_a_stage_do_not_overlap,
             every_message_is_an_arrow_from_who_makes_a_tensor_to_who_needs_it, numbers_are_in_the_boxes_where_they_fit,
             kinds_and_chunks_have_colours_of_their_own, names_are_escaped,
             every_rank_is_there_once_on_its_host_and_on_what_it_runs_on, boxes_are_inside_each_other_or_apart,
             texts_do_not_run_into_each_other, groups_share_a_colour_and_neighbours_do_not,
             every_axis_has_a_line_with_its_groups, a_page_shows_every_loss_and_the_split_of_time,
             a_page_needs_nothing_else, many_steps_are_joined,
             a_picture_goes_where_it_is_told_and_nothing_else_is_said, what_cannot_be_written_is_said_in_one_line)
finally:
    shutil.rmtree(scratch)
