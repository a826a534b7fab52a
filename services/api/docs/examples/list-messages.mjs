const { DESPATCH_URL, DESPATCH_KEY } = process.env;

let cursor = null;
do {
  const query = new URLSearchParams({ status: 'delivered', limit: '200', ...(cursor && { cursor }) });
  const response = await fetch(`${DESPATCH_URL}/v1/messages?${query}`, {
    headers: { 'X-Service-Key': DESPATCH_KEY },
  });
  const page = await response.json();
  if (!response.ok) throw new Error(`${page.statusCode} ${page.code}: ${page.message}`);
  for (const message of page.items) console.log(message.id, message.status);
  cursor = page.nextCursor;
} while (cursor !== null);
