import json
import os
import time
import urllib.request

request = urllib.request.Request(
    os.environ["DESPATCH_URL"] + "/v1/messages/" + os.environ["MESSAGE_ID"],
    headers={"X-Service-Key": os.environ["DESPATCH_KEY"]},
)
for _ in range(30):
    with urllib.request.urlopen(request, timeout=10) as response:
        record = json.load(response)
    if record["finality"] != "pending" or record["status"] == "unknown":
        break
    time.sleep(1)
print(json.dumps(record))
