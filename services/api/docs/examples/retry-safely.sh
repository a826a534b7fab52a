# curl retries 429, 503 and lost connections, and waits as long as Retry-After says.
# The key is made once per message, not once per attempt: it makes the repetition harmless.
idempotency_key="invoice-2026-0042"
curl -sS --fail-with-body --retry 5 --retry-connrefused --max-time 120 \
  "$DESPATCH_URL/v1/messages" \
  -H "X-Service-Key: $DESPATCH_KEY" \
  -H 'Content-Type: application/json' \
  -H "Idempotency-Key: $idempotency_key" \
  -d '{"channel": "email", "to": "delivered@simulator.invalid", "from": "Acme <billing@acme.example>",
       "subject": "Invoice 2026-0042", "bodyText": "Thank you for your order."}'
