// The program of `helm test`: checks that every pod of the release is healthy and has the schema it needs, that the api
// answers through its Service, and, if enabled, that a message sent with a service key is delivered. Plain JavaScript that
// uses only Node's own modules.
import { lookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const { API_URL, HEALTH_HOSTS = '', HEALTH_PORT = '9090', TIMEOUT_SECONDS = '120' } = process.env;
const { CANARY_KEY_FILE, CANARY_CHANNEL, CANARY_TO, CANARY_FROM } = process.env;
const deadline = Date.now() + Number(TIMEOUT_SECONDS) * 1_000;

/** Repeats the check until it passes; at the deadline throws its last fault. */
async function eventually(name, check) {
  for (;;) {
    const fault = await check().catch((error) => error.cause?.code ?? error.message);
    if (fault === undefined) return console.log(`passed  ${name}`);
    if (Date.now() > deadline) throw new Error(`${name}: ${fault}`);
    await sleep(500);
  }
}

function call(url, options = {}) {
  return fetch(url, { ...options, signal: AbortSignal.timeout(5_000) });
}

/** The name resolves to all pods of a component, so every address is checked. */
async function allReady(host) {
  for (const { address, family } of await lookup(host, { all: true })) {
    const authority = family === 6 ? `[${address}]` : address;
    const answer = await call(`http://${authority}:${HEALTH_PORT}/readyz`);
    if (!answer.ok) return `${address} answered ${answer.status}: ${await answer.text()}`;
  }
  return undefined;
}

async function apiAnswers() {
  const answer = await call(`${API_URL}/v1/openapi.json`);
  if (!answer.ok) return `answered ${answer.status}`;
  return (await answer.json()).openapi === undefined
    ? 'answered with something else than OpenAPI'
    : undefined;
}

const CONTENT = {
  sms: { body: 'helm test' },
  whatsapp: { body: 'helm test' },
  push: { title: 'helm test', body: 'helm test' },
  email: { subject: 'helm test', body: 'helm test' },
};

async function delivers() {
  const headers = { 'x-service-key': readFileSync(CANARY_KEY_FILE, 'utf8').trim() };
  const message = { channel: CANARY_CHANNEL, to: CANARY_TO, ...CONTENT[CANARY_CHANNEL] };
  // The same key for all attempts, so that a repeated request creates no second message.
  const idempotencyKey = `helm-test-${Date.now()}-${process.pid}`;
  let id;
  await eventually('a message is accepted', async () => {
    const answer = await call(`${API_URL}/v1/messages`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json', 'idempotency-key': idempotencyKey },
      body: JSON.stringify(CANARY_FROM ? { ...message, from: CANARY_FROM } : message),
    });
    if (answer.status !== 202) return `answered ${answer.status}: ${await answer.text()}`;
    id = (await answer.json()).id;
    return undefined;
  });
  await eventually('the message is delivered', async () => {
    const answer = await call(`${API_URL}/v1/messages/${id}`, { headers });
    if (!answer.ok) return `answered ${answer.status}`;
    const { status, finality } = await answer.json();
    const isDone = status === 'delivered' || (status === 'sent' && finality === 'accepted_only');
    return isDone ? undefined : `it is ${status}`;
  });
}

for (const host of HEALTH_HOSTS.split(',').filter((name) => name !== '')) {
  await eventually(`every pod of ${host} is ready`, () => allReady(host));
}
if (API_URL) await eventually('the api answers through its Service', apiAnswers);
if (CANARY_KEY_FILE) await delivers();
