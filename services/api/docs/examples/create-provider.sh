curl -sS "$DESPATCH_URL/v1/admin/providers" \
  -H "Authorization: Bearer $DESPATCH_TOKEN" \
  -H "X-Tenant-Slug: $DESPATCH_TENANT" \
  -H 'Content-Type: application/json' \
  -d '{"provider": "twilio", "label": "Twilio, main account",
       "publicConfig": {"accountSid": "AC00000000000000000000000000000001", "from": "+15005550006"},
       "secretConfig": {"authToken": "0123456789abcdef0123456789abcdef"}}'
