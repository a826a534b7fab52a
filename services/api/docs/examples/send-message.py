import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["DESPATCH_URL"] + "/v1/messages",
    data=json.dumps({"channel": "sms", "to": "+15550000001", "body": "Your order is on its way"}).encode(),
    headers={
        "X-Service-Key": os.environ["DESPATCH_KEY"],
        "Content-Type": "application/json",
        "Idempotency-Key": "order-4711-shipped",
    },
)
with urllib.request.urlopen(request, timeout=10) as response:
    print(json.dumps(json.load(response)))
