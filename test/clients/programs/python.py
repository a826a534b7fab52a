# Sends and reads a message of every channel with the generated client, and prints what its types made of the answers.
import json
import os

import despatch
from despatch.exceptions import BadRequestException

configuration = despatch.Configuration(host=os.environ["DESPATCH_URL"])
configuration.api_key["serviceKey"] = os.environ["DESPATCH_KEY"]
messages = despatch.MessagesApi(despatch.ApiClient(configuration))

drafts = [
    despatch.SendSmsMessage(channel="sms", to="+15550000001", body="Hello"),
    despatch.SendEmailMessage(
        channel="email",
        to="delivered@simulator.invalid",
        var_from="Acme <hello@acme.example>",
        subject="Hello",
        body_text="Hello",
        metadata={"order": despatch.SendEmailMessageMetadataValue("4711")},
        tags=["welcome"],
    ),
    despatch.SendPushMessage(channel="push", to="delivered", title="Hello", data={"screen": "home"}),
    despatch.SendWhatsappMessage(
        channel="whatsapp",
        to="+15550000001",
        template=despatch.WhatsappTemplate(name="welcome", language="en"),
    ),
]

results = []
for draft in drafts:
    accepted = messages.send_message(despatch.SendMessage(draft))
    record = messages.get_message(accepted.id)
    results.append(
        {
            "channel": accepted.channel,
            "status": accepted.status,
            "test": accepted.test,
            "enqueuedAt": accepted.enqueued_at.timestamp(),
            "isSame": record.id == accepted.id,
            "to": record.to,
            "finality": record.finality,
            "recordedAt": record.enqueued_at.timestamp(),
        }
    )

page = messages.list_messages(limit=2)
try:
    messages.send_message(
        despatch.SendMessage(despatch.SendSmsMessage(channel="sms", to="nobody", body="Hello"))
    )
    error = None
except BadRequestException as refused:
    body = despatch.Error.from_json(refused.body)
    error = {"statusCode": body.status_code, "code": body.code, "field": body.details[0].var_field}
print(
    json.dumps(
        {
            "messages": results,
            "listed": len(page.items),
            "hasMore": page.next_cursor is not None,
            "error": error,
        }
    )
)
