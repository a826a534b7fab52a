import http.client
import json
import os
import time
import urllib.error
import urllib.request

ATTEMPTS_MAX = 6
# In seconds: a longer Retry-After, such as until the next day, is left to the caller.
WAIT_MAX = 120


def send(message, idempotency_key):
    """Sends a message; repeats the request, with the same key, after a lost answer, a 429 or a 5xx."""
    request = urllib.request.Request(
        os.environ["DESPATCH_URL"] + "/v1/messages",
        data=json.dumps(message).encode(),
        headers={
            "X-Service-Key": os.environ["DESPATCH_KEY"],
            "Content-Type": "application/json",
            "Idempotency-Key": idempotency_key,
        },
    )
    for attempt in range(1, ATTEMPTS_MAX + 1):
        wait = min(2**attempt, 30)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            wait = int(error.headers.get("Retry-After", wait))
            is_temporary = error.code == 429 or error.code >= 500
            if not is_temporary or wait > WAIT_MAX or attempt == ATTEMPTS_MAX:
                raise RuntimeError(f"{error.code}: {error.read().decode()}") from error
        except (OSError, http.client.HTTPException):
            if attempt == ATTEMPTS_MAX:
                raise
        time.sleep(wait)


answer = send(
    {
        "channel": "email",
        "to": "delivered@simulator.invalid",
        "from": "Acme <billing@acme.example>",
        "subject": "Invoice 2026-0042",
        "bodyText": "Thank you for your order.",
    },
    "invoice-2026-0042",
)
print(json.dumps(answer))
