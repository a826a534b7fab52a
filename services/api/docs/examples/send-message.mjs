const { DESPATCH_URL, DESPATCH_KEY } = process.env;

const response = await fetch(`${DESPATCH_URL}/v1/messages`, {
  method: 'POST',
  headers: {
    'X-Service-Key': DESPATCH_KEY,
    'Content-Type': 'application/json',
    'Idempotency-Key': 'order-4711-shipped',
  },
  body: JSON.stringify({ channel: 'sms', to: '+15550000001', body: 'Your order is on its way' }),
});
const message = await response.json();
if (!response.ok) throw new Error(`${message.statusCode} ${message.code}: ${message.message}`);
console.log(JSON.stringify(message));
