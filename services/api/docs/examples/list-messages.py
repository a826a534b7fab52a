import json
import os
import urllib.parse
import urllib.request

cursor = None
while True:
    query = {"status": "delivered", "limit": 200}
    if cursor is not None:
        query["cursor"] = cursor
    request = urllib.request.Request(
        os.environ["DESPATCH_URL"] + "/v1/messages?" + urllib.parse.urlencode(query),
        headers={"X-Service-Key": os.environ["DESPATCH_KEY"]},
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        page = json.load(response)
    for message in page["items"]:
        print(message["id"], message["status"])
    cursor = page["nextCursor"]
    if cursor is None:
        break
