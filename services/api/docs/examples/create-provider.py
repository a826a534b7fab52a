import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["DESPATCH_URL"] + "/v1/admin/providers",
    data=json.dumps(
        {
            "provider": "twilio",
            "label": "Twilio, main account",
            "publicConfig": {"accountSid": "AC00000000000000000000000000000001", "from": "+15005550006"},
            "secretConfig": {"authToken": "0123456789abcdef0123456789abcdef"},
        }
    ).encode(),
    headers={
        "Authorization": "Bearer " + os.environ["DESPATCH_TOKEN"],
        "X-Tenant-Slug": os.environ["DESPATCH_TENANT"],
        "Content-Type": "application/json",
    },
)
with urllib.request.urlopen(request, timeout=10) as response:
    print(json.dumps(json.load(response)))
