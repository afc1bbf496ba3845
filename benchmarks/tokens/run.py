"""What reading a long prompt's tokens keeps waiting: `make bench NAME=tokens`.

    python benchmarks/tokens/run.py [--mebibytes 0.5,1,2,4]

For a chat of each length, of words, with a token for each four characters: `pause_ms` is the longest time
that another thread is kept from running while `kvaware` makes the question for an engine, reads the answer
and names the blocks, as it does beside requests; `whole_ms` is how long these take together. Least of 5
passes. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import threading
import time

from hypertier.router.api.openai import BLOCK_ENDS, Prompt, prompt_start
from hypertier.router.kv import tokens

PATH = b"/v1/chat/completions"
WORDS = "the quick brown fox jumps over a lazy dog and some more words of this language"
TICK_SECONDS = 0.0005
BLOCK_TOKENS, TOKEN_CHARACTERS = 16, 4
NUM_PASSES = 5


def prompt_of(num_bytes: int) -> tuple[Prompt, bytes]:
    """A chat, and what an engine answers of it."""
    draw, words = random.Random(1), WORDS.split()
    text = " ".join(draw.choice(words) for _ in range(num_bytes // 3))[:num_bytes]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    strings = [text[at : at + TOKEN_CHARACTERS] for at in range(0, num_bytes, TOKEN_CHARACTERS)]
    answer = {"tokens": [draw.randrange(100_000) for _ in strings], "token_strs": strings}
    return Prompt(PATH, body, prompt_start(body, PATH)), json.dumps(answer).encode()


def work(prompt: Prompt, answer: bytes) -> None:
    """All that is done beside the way of requests."""
    num_bytes = tokens.question(prompt).num_bytes
    tokens.names_of(tokens.read_tokens(answer), BLOCK_TOKENS, num_bytes, len(BLOCK_ENDS))


def measure(prompt: Prompt, answer: bytes) -> tuple[float, float]:
    """The longest pause of this thread, and all of the time, in milliseconds."""
    beside = threading.Thread(target=work, args=(prompt, answer))
    begun = last = time.perf_counter()
    beside.start()
    pause = 0.0
    while beside.is_alive():
        time.sleep(TICK_SECONDS)
        now = time.perf_counter()
        pause, last = max(pause, now - last - TICK_SECONDS), now
    return pause * 1e3, (last - begun) * 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", default="0.5,1,2,4")
    found = {}
    for mebibytes in map(float, parser.parse_args().mebibytes.split(",")):
        prompt, answer = prompt_of(int(mebibytes * 2**20))
        passes = [measure(prompt, answer) for _ in range(NUM_PASSES)]
        pause, whole = (min(one[part] for one in passes) for part in (0, 1))
        found[f"{mebibytes:g}"] = {"pause_ms": round(pause, 1), "whole_ms": round(whole, 1)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
