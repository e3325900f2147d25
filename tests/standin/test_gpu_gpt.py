#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weft gpt --device cuda` trains as `weft gpt` does, in every layout.  usage: test_gpu_gpt.py COMMAND [SEEDS]

SEEDS: nothing but that so many orders of what streams leave open give the same bits."""
import functools
import json
import os
import re
import subprocess
import sys
import tempfile

import tap

command = sys.argv[1]
SEEDS = int(sys.argv[2]) if len(sys.argv) > 2 else 0
SLOW = os.environ.get("WEFT_TEST_SLOWDOWN", "1") != "1"
STEPS = 4 if SLOW else 20
FEW = 4  # are enough to tell weights apart
SMALL_BUCKETS = "--ddp-bucket-size 3000"
MODEL = ("--mock-data --num-layers 4 --hidden-size 32 --ffn-hidden-size 64 --num-attention-heads 4 "
         "--group-query-attention --num-query-groups 2 --seq-length 16 --micro-batch-size 2 --global-batch-size 8 "
         f"--train-iters {STEPS} --lr-decay-iters 20").split()


def train(ranks, layout, device, threads=True, code=0, **env):
    """The losses of a training, and the weights at its end."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        words = [command, "run", "-n", str(ranks), *(["--threads"] if threads else []), "--", command, "gpt", *MODEL,
                 *layout.split(), "--device", device, "--json", file.name]
        done = subprocess.run(words, capture_output=True, text=True, timeout=240, env={**os.environ, **env})
        assert done.returncode == code, f"{' '.join(words)}: code {done.returncode}\n{done.stdout}{done.stderr}"
        if code:
            return done.stderr
        lines = [json.loads(line) for line in open(file.name)]
    weights = [line.split()[-1] for line in done.stdout.splitlines() if line.split()[-2:-1] == ["weights"]]
    return [line["loss"] for line in lines if "loss" in line], weights


@functools.cache
def losses_of_host(ranks, layout):
    return train(ranks, layout, "host")[0]


def check(ranks, layout, within, **options):
    host = losses_of_host(ranks, layout)
    gpu, _ = train(ranks, layout, "cuda", **options)
    assert len(host) == len(gpu) == STEPS and host[0] - host[-1] > 0.2, host
    for step, (want, got) in enumerate(zip(host, gpu), 1):
        assert abs(want - got) <= within * want, f"{layout}, step {step}: {got}, not {want}"


def weights_of(ranks, layout, **options):
    return tuple(train(ranks, f"{layout} --train-iters {FEW}", "cuda", **options)[1])


def one_gpu_trains_as_the_host():
    check(1, "", 1e-5)
    check(1, "--bf16", 1e-3)


def fused_attention_trains_as_the_host():
    """Threads of its kernels take turns, which takes time: a few steps, and next to nothing is held out."""
    for layout, attention in (("", "auto"), ("--tensor-model-parallel-size 2", "flash"), ("", "unfused")):
        layout = f"--kv-channels 64 --bf16 --split 999,1 --train-iters {FEW} {layout}"
        ranks = 2 if "tensor" in layout else 1
        host = train(ranks, layout, "host")[0]
        gpu = train(ranks, f"{layout} --attention-backend {attention}", "cuda")[0]
        assert len(gpu) == FEW and all(abs(a - b) <= 1e-3 * a for a, b in zip(host, gpu, strict=True)), (host, gpu)


def tensor_and_data_parallel_gpus_train_as_the_host():
    check(4, "--tensor-model-parallel-size 2 --sequence-parallel --ddp-bucket-size 3000", 1e-5)
    check(4, "--tensor-model-parallel-size 2 --bf16", 1e-3, threads=False)


def stages_train_as_the_host():
    check(4, "--pipeline-model-parallel-size 4 --untie-embeddings-and-output-weights", 1e-5)
    check(4, "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --bf16", 1e-3)


def eight_gpus_train_as_the_host_in_every_order_that_their_queues_allow():
    layout = f"--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel {SMALL_BUCKETS}"
    check(8, layout, 1e-5)
    weights = {weights_of(8, layout, STANDIN_SEED=str(seed)) for seed in range(1, 2 if SLOW else 4)}
    weights.add(weights_of(8, layout, STANDIN_QUEUES="one"))
    assert len(weights) == 1 and "".join(*weights), weights


def many_orders_give_the_same_bits():
    layout = f"--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel {SMALL_BUCKETS}"
    first = weights_of(8, layout, STANDIN_SEED="1")
    for seed in range(2, SEEDS + 1):
        weights = weights_of(8, layout, STANDIN_SEED=str(seed))
        assert weights == first, f"seed {seed}: {weights}, not {first}"
    print(f"# {SEEDS} seeds")


def without_overlap_weights_are_the_same():
    layout = "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --ddp-bucket-size 3000"
    check(4, layout, 1e-5)
    assert weights_of(4, layout) == weights_of(4, layout + " --overlap off")


def ten_faults_are_found_and_named():
    layout = f"--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2 {SMALL_BUCKETS}"
    faults = {  # what is left out or misplaced: who then meets what nothing orders
        "wait:1": "race: 'reduce-scatter' .* reads .* that 'embed' .* writes",
        "wait:2": "race: 'norm' .* reads .* that 'reduce-scatter' .* writes",
        "wait:5": "race: 'reduce-scatter' .* reads .* that 'product' .* writes",
        "wait:10": "race: 'add' .* reads .* that 'reduce-scatter' .* writes",
        "wait:100": "race: '.*' .* that '.*' .*, and nothing orders",
        "record:1": "race: 'copy' .* reads .* that 'all-reduce' .* writes",
        "record:10": "race: 'product' .* reads .* that 'all-gather' .* writes",
        "record:40": "race: '.*' .* that '.*' .*, and nothing orders",
        "swap:600": "ranks? .* ask for different things|race: ",
        "swap:800": "ranks? .* ask for different things|race: ",
    }
    for fault, says in faults.items():
        text = train(4, layout, "cuda", code=86, STANDIN_FAULT=fault)
        assert re.search(f"standin: .*({says})", text), f"{fault}: {text}"


def without_a_gpu_the_reason_is_told():
    text = train(2, "", "cuda", code=1, STANDIN_DEVICES="0")
    assert "weft: --device cuda: no CUDA device: no CUDA-capable device is detected" in text, text
    text = train(1, "", "cuda", code=1, STANDIN_DEVICES="0", STANDIN_NO_DRIVER="1")
    assert "--device cuda: no CUDA device: there is no NVIDIA driver here, or one older than" in text, text


def facts_of_info(**env):
    done = subprocess.run([command, "info", "--json"], capture_output=True, text=True, timeout=60, check=True,
                          env={**os.environ, **env})
    return json.loads(done.stdout)


def gpus_are_counted_or_the_reason_is_told():
    def gpus(**env):
        return next((fact["value"], fact["note"]) for fact in facts_of_info(**env)["library"] if fact["name"] == "GPUs")
    assert gpus(STANDIN_DEVICES="3") == ("3", ""), gpus(STANDIN_DEVICES="3")
    none = gpus(STANDIN_DEVICES="0", STANDIN_NO_DRIVER="1")
    assert none[0] == "none" and "no CUDA device: there is no NVIDIA driver here" in none[1], none


def modules_for_gpus_are_listed():
    modules = {os.path.basename(module["name"]): module for module in facts_of_info()["modules"]}
    for name in "libweft-cuda.so", "libweft-gpt-cuda.so", "libweft-backend-nccl.so":
        assert modules[name]["value"] == "loaded", modules


if SEEDS:
    tap.main(many_orders_give_the_same_bits)
else:
    tap.main(one_gpu_trains_as_the_host, fused_attention_trains_as_the_host,
             tensor_and_data_parallel_gpus_train_as_the_host, stages_train_as_the_host,
             eight_gpus_train_as_the_host_in_every_order_that_their_queues_allow,
             without_overlap_weights_are_the_same, ten_faults_are_found_and_named, without_a_gpu_the_reason_is_told,
             modules_for_gpus_are_listed, gpus_are_counted_or_the_reason_is_told)
