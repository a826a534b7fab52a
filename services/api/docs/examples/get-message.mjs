const { DESPATCH_URL, DESPATCH_KEY, MESSAGE_ID } = process.env;

let record;
for (let i = 0; i < 30; i += 1) {
  const response = await fetch(`${DESPATCH_URL}/v1/messages/${MESSAGE_ID}`, {
    headers: { 'X-Service-Key': DESPATCH_KEY },
  });
  record = await response.json();
  if (!response.ok) throw new Error(`${record.statusCode} ${record.code}: ${record.message}`);
  if (record.finality !== 'pending' || record.status === 'unknown') break;
  await new Promise((resolve) => setTimeout(resolve, 1000));
}
console.log(JSON.stringify(record));
