"""Judges calls by the package of Standard Webhooks: an array of them in, an array of verdicts out."""

import json
import sys

from standardwebhooks import Webhook, WebhookVerificationError


def verdict(call):
    try:
        Webhook(call["secret"]).verify(call["body"].encode(), call["headers"])
    except WebhookVerificationError as error:
        return str(error)
    return "genuine"


json.dump([verdict(call) for call in json.load(sys.stdin)], sys.stdout)
