"""Sends bodies as Python's own HTTP client does: all of it is written before the answer is looked at.

Reads cases as JSON from standard input, sends them side by side and prints what came of each, in order: a status with its
`code`, or the name of the error that hid the answer.
"""

import json
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

PIECE = 65_536


def pieces(size):
    for start in range(0, size, PIECE):
        yield b" " * min(PIECE, size - start)


def send(case):
    body = pieces(case["bytes"]) if case["chunked"] else b" " * case["bytes"]
    headers = {**case["headers"]}
    if case["chunked"]:
        headers["Transfer-Encoding"] = "chunked"
    request = urllib.request.Request(case["url"], data=body, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return [answer.status, json.load(answer).get("code")]
    except urllib.error.HTTPError as error:
        return [error.code, json.load(error).get("code")]
    except OSError as error:
        return [0, f"{type(error).__name__}: {error}"]


cases = json.load(sys.stdin)
with ThreadPoolExecutor(max_workers=8) as pool:
    print(json.dumps(list(pool.map(send, cases))))
