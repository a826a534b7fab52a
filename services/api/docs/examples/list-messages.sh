# Prints a page in each line. The last one says "nextCursor":null.
cursor=
while :; do
  page=$(curl -sS --fail-with-body --get "$DESPATCH_URL/v1/messages" -H "X-Service-Key: $DESPATCH_KEY" \
    -d status=delivered -d limit=200 ${cursor:+--data-urlencode "cursor=$cursor"}) || { echo "$page" >&2; exit 1; }
  echo "$page"
  cursor=$(echo "$page" | sed -n 's/.*"nextCursor":"\([^"]*\)".*/\1/p')
  [ -n "$cursor" ] || break
done
