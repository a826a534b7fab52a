curl -sS "$DESPATCH_URL/v1/messages" \
  -H "X-Service-Key: $DESPATCH_KEY" \
  -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: order-4711-shipped' \
  -d '{"channel": "sms", "to": "+15550000001", "body": "Your order is on its way"}'
