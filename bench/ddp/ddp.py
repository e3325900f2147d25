#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of PyTorch DDP on gloo that trains the GPT of `weft gpt`: the same shape, in fp32, with the same buckets.
Steps that communicate and steps that do not come in turn; rank 0 prints one object of JSON. Started by compare.py."""
import argparse
import contextlib
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional as F

BLOCK = 3  # steps of one kind in a row; the first is not counted


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads = o.heads
        self.attention_norm, self.mlp_norm = Norm(o.hidden), Norm(o.hidden)
        self.qkv = nn.Linear(o.hidden, 3 * o.hidden, bias=False)
        self.output = nn.Linear(o.hidden, o.hidden, bias=False)
        self.gate_up = nn.Linear(o.hidden, 2 * o.ffn, bias=False)
        self.down = nn.Linear(o.ffn, o.hidden, bias=False)

    def forward(self, x, cosines, sines, mask):
        samples, sequence, hidden = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(samples, sequence, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cosines, sines), rotate(k, cosines, sines)
        weights = torch.baddbmm(mask, q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2),
                                alpha=(hidden // self.heads) ** -0.5).softmax(-1)
        context = torch.bmm(weights, v.flatten(0, 1)).view(samples, self.heads, sequence, -1)
        x = x + self.output(context.transpose(1, 2).reshape(samples, sequence, hidden))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def rotate(x, cosines, sines):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cosines - b * sines, b * cosines + a * sines), -1)


class Gpt(nn.Module):
    """Embeddings are tied, as in `weft gpt` unless said."""

    def __init__(self, o):
        super().__init__()
        self.embedding = nn.Embedding(256, o.hidden)
        self.layers = nn.ModuleList(Layer(o) for _ in range(o.layers))
        self.norm = Norm(o.hidden)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        half = o.hidden // o.heads // 2
        angles = torch.outer(torch.arange(o.sequence), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)
        self.register_buffer("mask", torch.full((1, o.sequence, o.sequence), -1e30).triu(1), persistent=False)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cosines, self.sines, self.mask)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Trainer:
    def __init__(self, o):
        torch.manual_seed(1234)
        self.o = o
        self.model = nn.parallel.DistributedDataParallel(Gpt(o), bucket_cap_mb=o.bucket_bytes / 2**20,
                                                         gradient_as_bucket_view=True)
        how = {"lr": 1e-3, "weight_decay": 0.01}
        self.sharded = o.optimizer == "zero"
        if self.sharded:
            self.optimizer = ZeroRedundancyOptimizer(self.model.parameters(), torch.optim.AdamW, **how)
        else:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), **how)
        torch.manual_seed(dist.get_rank())

    def step(self, communicates):
        count = self.o.microbatches
        for i in range(count):
            tokens = torch.randint(256, (self.o.micro_batch, self.o.sequence + 1))
            last = communicates and i + 1 == count
            with contextlib.nullcontext() if last else self.model.no_sync():
                (self.model(tokens[:, :-1], tokens[:, 1:]) / count).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        # Alone, a sharded optimizer updates its own part and tells nobody.
        optimizer = self.optimizer.optim if self.sharded and not communicates else self.optimizer
        optimizer.step()
        self.model.zero_grad(set_to_none=False)

    def block(self, communicates):
        """Mean milliseconds of a step, of the slowest rank."""
        for i in range(BLOCK):
            if i == 1:
                began = time.perf_counter()
            self.step(communicates)
        mean = torch.tensor([1e3 * (time.perf_counter() - began) / (BLOCK - 1)])
        dist.all_reduce(mean, dist.ReduceOp.MAX)
        return mean.item()

    def times(self, steps):
        """Milliseconds of a step that does not communicate, and what one that does takes longer: medians over pairs of
        blocks side by side, as `weft gpt --overlap compare` has it."""
        pairs = [(self.block(True), self.block(False)) for _ in range(steps // BLOCK // 2)]
        return (statistics.median(alone for _, alone in pairs),
                statistics.median(both - alone for both, alone in pairs))


def main():
    parser = argparse.ArgumentParser()
    for name in "layers", "hidden", "ffn", "heads", "sequence", "micro-batch", "microbatches", "bucket-bytes", "steps":
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--optimizer", choices=("adam", "zero"), required=True)
    o = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    trainer = Trainer(o)
    alone, exposed = trainer.times(o.steps)
    if dist.get_rank() == 0:
        print(json.dumps({"alone": alone, "exposed": exposed, "torch": torch.__version__,
                          "parameters": sum(p.numel() for p in trainer.model.parameters())}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "eth0")
    main()
