# curl retries 429, 5xx and lost connections, and waits as long as Retry-After says, for two minutes in all: it gives up at once
# if Retry-After is longer. Another refusal is final.
# The key is made once per message, not once per attempt: it makes the repetition harmless.
idempotency_key="invoice-2026-0042"
answer=$(mktemp)
status=$(curl -sS --retry 5 --retry-all-errors --retry-max-time 120 --max-time 10 -o "$answer" -w '%{http_code}' \
  "$DESPATCH_URL/v1/messages" \
  -H "X-Service-Key: $DESPATCH_KEY" \
  -H 'Content-Type: application/json' \
  -H "Idempotency-Key: $idempotency_key" \
  -d '{"channel": "email", "to": "delivered@simulator.invalid", "from": "Acme <billing@acme.example>",
       "subject": "Invoice 2026-0042", "bodyText": "Thank you for your order."}') || exit 1
[ "$status" -ge 200 ] && [ "$status" -lt 300 ] || { cat "$answer" >&2; exit 1; }
cat "$answer"
