for _ in $(seq 30); do
  record=$(curl -sS "$DESPATCH_URL/v1/messages/$MESSAGE_ID" -H "X-Service-Key: $DESPATCH_KEY")
  case "$record" in
    *'"status":"unknown"'*) break ;;
    *'"finality":"pending"'*) sleep 1 ;;
    *) break ;;
  esac
done
echo "$record"
