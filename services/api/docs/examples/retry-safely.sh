# curl retries 429, 5xx and lost connections, and waits as long as Retry-After says. Another refusal is final.
# The key is made once per message, not once per attempt: it makes the repetition harmless.
idempotency_key="invoice-2026-0042"
answer=$(mktemp)
status=$(curl -sS --retry 5 --retry-all-errors --max-time 10 -o "$answer" -w '%{http_code}' \
  "$DESPATCH_URL/v1/messages" \
  -H "X-Service-Key: $DESPATCH_KEY" \
  -H 'Content-Type: application/json' \
  -H "Idempotency-Key: $idempotency_key" \
  -d '{"channel": "email", "to": "delivered@simulator.invalid", "from": "Acme <billing@acme.example>",
       "subject": "Invoice 2026-0042", "bodyText": "Thank you for your order."}')
cat "$answer"
[ "$status" -lt 300 ]
