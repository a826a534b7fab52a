import { afterAll, beforeAll, expect, test } from 'vitest';
import { call } from '#test/support/http-call.ts';
import { startServiceStack, type ServiceStack, type StackTenant } from '#test/support/service-stack.ts';
import { startDnsServer, type DnsServer } from './dns-server.ts';

let dns: DnsServer;
let stack: ServiceStack;

beforeAll(async () => {
  dns = await startDnsServer(({ name }) => (name.endsWith('.slow.example') ? 'silence' : ['127.0.0.1']));
  stack = await startServiceStack({ worker: { EGRESS_DNS_SERVERS: dns.address } });
  // Leaves one worker process: with two, the quiet tenant could have one to itself.
  await stack.workers[1].end();
});

afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
  await dns?.[Symbol.asyncDispose]();
});

const SLOW_HOSTS = 10;
const SLOW_MAILS = 40;
const QUIET_MAILS = 20;
const SOON = { interval: 20 };

test("unanswered DNS lookups of one tenant's mail servers do not delay another tenant's mails", async () => {
  const [loud, quiet] = await Promise.all([stack.tenant([]), stack.tenant([])]);
  const slow = await Promise.all(
    Array.from({ length: SLOW_HOSTS }, (_, i) => addMailServer(loud, `mail${i}.slow.example`)),
  );
  // A name in the certificate of the test's mail server.
  const quick = await addMailServer(quiet, 'mail.test');

  await Promise.all(
    Array.from({ length: SLOW_MAILS }, (_, i) => sendMail(loud, slow[i % SLOW_HOSTS] ?? '', 'loud')),
  );
  await expect.poll(() => stack.states(loud.id), SOON).toEqual({ sending: SLOW_MAILS });
  await Promise.all(Array.from({ length: QUIET_MAILS }, () => sendMail(quiet, quick, 'quiet')));
  await expect.poll(() => stack.states(quiet.id), SOON).toEqual({ sent: QUIET_MAILS });

  expect(await attemptsOf(loud)).toEqual(Array.from({ length: SLOW_MAILS }, () => 'sending 1'));
  expect(await attemptsOf(quiet)).toEqual(Array.from({ length: QUIET_MAILS }, () => 'sent 1'));
  expect(stack.smtp.received).toHaveLength(QUIET_MAILS);
  await expect.poll(() => stack.states(loud.id), SOON).not.toHaveProperty('sending');
});

async function addMailServer({ token, slug }: StackTenant, host: string): Promise<string> {
  const body = {
    provider: 'smtp',
    label: host,
    publicConfig: { host, port: stack.smtp.port },
    secretConfig: {},
  };
  const added = await call(stack.apis[0].origin, 'POST', '/v1/admin/providers', { token, slug, body });
  expect(added.status).toBe(201);
  return added.body.id as string;
}

async function sendMail({ serviceKey }: StackTenant, accountId: string, subject: string): Promise<void> {
  const body = {
    channel: 'email',
    to: 'ada@example.com',
    from: 'zoe@acme.example',
    subject,
    bodyText: 'Hello',
    providerId: accountId,
  };
  const sent = await call(stack.apis[0].origin, 'POST', '/v1/messages', { key: serviceKey, body });
  expect(sent.status).toBe(202);
}

/** The state and the number of attempts of each of the tenant's messages. */
async function attemptsOf({ serviceKey }: StackTenant): Promise<string[]> {
  const listed = await call(stack.apis[0].origin, 'GET', '/v1/messages?limit=200', { key: serviceKey });
  const items = listed.body.items as { status: string; attemptCount: number }[];
  return items.map(({ status, attemptCount }) => `${status} ${attemptCount}`);
}
