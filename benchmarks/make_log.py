"""Write a long, realistic server log for the speed benchmarks.

Two thirds of the bytes are request dumps, the rest access lines, with one statistics pair (vLLM) or one decode and one
prefill line (SGLang) every 400 lines. The text is pseudo-random but the same for the same arguments.

    python -m benchmarks.make_log OUT --megabytes 1000 --engine vllm
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from io import FileIO
from pathlib import Path

LINES_PER_PAIR = 400
FIRST_DAY = datetime(2026, 3, 1, 12)
PROMPT = (
    "the model of memory and bandwidth reads every weight once per step while attention grows with context so a batch "
    "of requests shares that cost Decode batches are bound by HBM Prefill by Engine arithmetic throughput 12.5 GB/s"
)
START_UP = {
    "vllm": (
        "(APIServer pid=449) INFO {vllm} [api_utils.py:339]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.24.0\n"
        "(APIServer pid=449) INFO {vllm} [api_utils.py:339]   █▄█▀ █     █     █     █  model   /models/Llama-3-8B\n"
        "(EngineCore pid=1017) INFO {vllm} [core.py:114] Initializing a V1 LLM engine (v0.24.0) with config: "
        "model='/models/Llama-3-8B', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, "
        "pipeline_parallel_size=1, data_parallel_size=1, quantization=None, kv_cache_dtype=auto\n"
        "(EngineCore pid=1017) INFO {vllm} [kv_cache_utils.py:1319] GPU KV cache size: 812,976 tokens\n"
    ),
    "sglang": (
        "[{sglang}] server_args=ServerArgs(model_path='/models/Llama-3-8B', dtype='bfloat16', quantization=None, "
        "kv_cache_dtype='auto', tp_size=1, pp_size=1, dp_size=1, decode_log_interval=40, enable_metrics=True, "
        "enable_mfu_metrics=True)\n"
        "[{sglang}] max_total_num_tokens=812976, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=256, context_len=8192, available_gpu_mem=20.11 GB\n"
    ),
}
DUMP = {
    "vllm": (
        "(APIServer pid=449) INFO {vllm} [logger.py:63] Received request cmpl-{ident:032x}-0: params: "
        "SamplingParams(n=1, temperature=0.7, top_p=0.95, max_tokens=512), lora_request: None, prompt: {prompt!r}\n"
    ),
    "sglang": (
        "[{sglang}] Receive: obj=GenerateReqInput(rid='{ident:032x}', text={prompt!r}, "
        "sampling_params={{'temperature': 0.7, 'max_new_tokens': 512}})\n"
    ),
}
ACCESS = {
    "vllm": '(APIServer pid=449) INFO:     127.0.0.1:{port} - "POST /v1/completions HTTP/1.1" 200 OK\n',
    "sglang": '[{sglang}] INFO:     127.0.0.1:{port} - "POST /generate HTTP/1.1" 200 OK\n',
}
STATS = {
    "vllm": (
        "(APIServer pid=449) INFO {vllm} [loggers.py:273] Engine 000: "
        "Avg prompt throughput: {prompt_rate:.1f} tokens/s, "
        "Avg generation throughput: {rate:.1f} tokens/s, Running: {running} reqs, Waiting: 0 reqs, "
        "GPU KV cache usage: {usage:.1f}%, Prefix cache hit rate: 12.5%\n",
        "(APIServer pid=449) INFO {vllm} [perf.py:1532] Engine 000: MFU: {tflops:.1f} TF/s/GPU {gbps:.1f} GB/s/GPU\n",
    ),
    "sglang": (
        "[{sglang}] Decode batch, #running-req: {running}, #token: {tokens}, token usage: 0.12, cuda graph: True, "
        "gen throughput (token/s): {rate:.2f}, #queue-req: 0, est. decode TFLOPS/s (per GPU): {tflops:.2f}, "
        "est. read BW (GB/s per GPU): {gbps:.2f}, est. write BW (GB/s per GPU): 6.00\n",
        "[{sglang}] Prefill batch, #new-seq: 2, #new-token: 2048, #cached-token: 0, token usage: 0.12, "
        "#running-req: {running}, #queue-req: 0, #pending-token: 0, cuda graph: False, "
        "input throughput (token/s): {prompt_rate:.2f}, est. prefill TFLOPS/s (per GPU): {tflops:.2f}\n",
    ),
}


def _prompts(rng: random.Random, count: int = 256) -> list[str]:
    """Prompts of 0.3 to 4 KB: long enough that a dump is mostly text, as it is in a real log."""
    return [" ".join(rng.choices(PROMPT.split(), k=rng.randint(50, 650))) for _ in range(count)]


def _values(rng: random.Random, now: datetime) -> dict[str, object]:
    running = rng.randint(1, 256)
    return {
        "vllm": now.strftime("%m-%d %H:%M:%S"),
        "sglang": now.strftime("%Y-%m-%d %H:%M:%S"),
        "ident": rng.getrandbits(128),
        "port": rng.randint(30000, 60000),
        "running": running,
        "tokens": running * 1500,
        "rate": running * rng.uniform(80, 140),
        "prompt_rate": rng.uniform(0, 9000),
        "usage": running / 3,
        "tflops": running * rng.uniform(0.9, 1.3),
        "gbps": rng.uniform(1800, 3900),
    }


def blocks(engine: str, seed: int = 0) -> Iterator[str]:
    """Endless text, one statistics pair (about a quarter of a megabyte) a time, after the start-up lines."""
    rng = random.Random(seed)
    prompts = _prompts(rng)
    now = FIRST_DAY
    yield START_UP[engine].format(**_values(rng, now))
    dumped = plain = 0
    while True:
        now += timedelta(seconds=10)
        values = _values(rng, now)
        lines = []
        for _ in range(LINES_PER_PAIR):
            values["port"] = rng.randint(30000, 60000)
            if dumped <= 2 * plain:
                values["ident"] = rng.getrandbits(128)
                line = DUMP[engine].format(**values, prompt=rng.choice(prompts))
                dumped += len(line)
            else:
                line = ACCESS[engine].format(**values)
                plain += len(line)
            lines.append(line)
        pair = [line.format(**values) for line in STATS[engine]]
        plain += sum(map(len, pair))
        yield "".join(lines + pair)


def write_log(path: Path, megabytes: float, engine: str = "vllm", seed: int = 0) -> None:
    """Write about ``megabytes`` (1e6 bytes) of log to ``path``, in small writes as a server does.

    (Large ones would leave larger pages in the page cache, which favours whoever maps the file.) Up to 64 MB are
    composed and then repeated under the next day's date: composing a gigabyte would take longer than the measuring.
    """
    composed: list[bytes] = []
    wanted = int(megabytes * 1e6)
    left = min(wanted, 64_000_000)
    for text in blocks(engine, seed):
        composed.append(text.encode())
        left -= len(composed[-1])
        if left <= 0:
            break
    start_up, *body = composed
    with open(path, "wb", buffering=0) as out:
        size = out.write(start_up)
        for day in itertools.count():
            date = f"{FIRST_DAY + timedelta(day):%m-%d}".encode()
            for block in body:
                if size >= wanted:
                    return
                size += _write(out, block.replace(f"{FIRST_DAY:%m-%d}".encode(), date)[: wanted - size + 200])


def _write(out: FileIO, block: bytes) -> int:
    block = block[: block.rfind(b"\n") + 1] or b"\n"
    return sum(out.write(block[low : low + 4096]) for low in range(0, len(block), 4096))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--engine", choices=sorted(STATS), default="vllm")
    given = parser.parse_args()
    write_log(given.path, given.megabytes, given.engine)


if __name__ == "__main__":
    main()
