const { DESPATCH_URL, DESPATCH_KEY } = process.env;
const ATTEMPTS_MAX = 6;
/** In seconds: a longer `Retry-After`, such as until the next day, is left to the caller. */
const WAIT_MAX = 120;

/** Sends a message; repeats the request, with the same key, after a lost answer, a 429 or a 5xx. */
async function send(message, idempotencyKey) {
  for (let attempt = 1; ; attempt += 1) {
    let wait = Math.min(2 ** attempt, 30);
    try {
      const response = await fetch(`${DESPATCH_URL}/v1/messages`, {
        method: 'POST',
        headers: {
          'X-Service-Key': DESPATCH_KEY,
          'Content-Type': 'application/json',
          'Idempotency-Key': idempotencyKey,
        },
        body: JSON.stringify(message),
        signal: AbortSignal.timeout(10_000),
      });
      const answer = await response.json();
      if (response.ok) return answer;
      wait = Number(response.headers.get('Retry-After') ?? wait);
      const isTemporary = response.status === 429 || response.status >= 500;
      if (!isTemporary || wait > WAIT_MAX || attempt === ATTEMPTS_MAX)
        throw Object.assign(new Error(`${answer.statusCode} ${answer.code}: ${answer.message}`), { answer });
    } catch (error) {
      if (error.answer || attempt === ATTEMPTS_MAX) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
  }
}

const answer = await send(
  {
    channel: 'email',
    to: 'delivered@simulator.invalid',
    from: 'Acme <billing@acme.example>',
    subject: 'Invoice 2026-0042',
    bodyText: 'Thank you for your order.',
  },
  'invoice-2026-0042',
);
console.log(JSON.stringify(answer));
