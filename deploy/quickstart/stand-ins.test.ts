import { expect, test } from 'vitest';
import { freePort } from '../servers/ports.ts';
import { startStandIns } from './stand-ins.ts';

test('a page shows the newest message first, its parts by name, and links only web addresses', async () => {
  await using standIns = await startStandIns({ port: await freePort() });
  const origin = standIns.urls['whatsapp-cloud'];
  const send = async (to: string, content: object) =>
    fetch(`${origin}/v23.0/123/messages`, {
      method: 'POST',
      body: JSON.stringify({ to, ...content }),
    });
  await send('+1', { type: 'text', text: { body: 'First line\n<b>second</b>' } });
  await send('+2', { type: 'image', image: { link: 'https://a.example/x.png?a=1&b=2', caption: 'Look' } });
  await send('+3', { type: 'image', image: { link: 'javascript:alert(1)' } });
  const response = await fetch(origin);
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
  const page = await response.text();
  expect([...page.matchAll(/To <b>([^<]+)<\/b> from <b>123<\/b>/g)].map(([, to]) => to)).toEqual([
    '+3',
    '+2',
    '+1',
  ]);
  expect(page).toContain('<pre>First line\n&lt;b&gt;second&lt;/b&gt;</pre>');
  const link = 'https://a.example/x.png?a=1&amp;b=2';
  expect(page).toContain(`<td><a href="${link}">${link}</a></td>`);
  expect(page).toContain('<td>javascript:alert(1)</td>');
});

test('a page shows how many older messages it omits', async () => {
  await using standIns = await startStandIns({ port: await freePort() });
  const origin = standIns.urls.twilio;
  const send = (body: string) =>
    fetch(`${origin}/2010-04-01/Accounts/AC1/Messages.json`, {
      method: 'POST',
      body: new URLSearchParams({ To: '+1', From: '+2', Body: body }),
    });
  for (let i = 0; i < 203; i++) await send(`message ${i}.`);
  const page = await (await fetch(origin)).text();
  expect(page).toContain('3 older ones are in the JSON.');
  expect(page).toContain('message 3.');
  expect(page).not.toContain('message 2.');
});

test('an outage makes a vendor refuse the given number of messages and nothing else', async () => {
  const mails: unknown[] = [];
  await using standIns = await startStandIns({
    port: await freePort(),
    deliverMail: (mail) => void mails.push(mail),
  });
  const { twilio, resend } = standIns.urls;
  const sms = async (body: string) => {
    const headers = { authorization: 'Basic QUMxOng=' };
    const form = new URLSearchParams({ To: '+1', From: '+2', Body: body });
    const url = `${twilio}/2010-04-01/Accounts/AC1/Messages.json`;
    return (await fetch(url, { method: 'POST', headers, body: form })).status;
  };
  const fail = async (origin: string, query: string) =>
    (await fetch(`${origin}/outage${query}`, { method: 'POST' })).status;

  expect(await fail(twilio, '?messages=2')).toBe(204);
  expect((await fetch(`${twilio}/2010-04-01/Accounts/AC1.json`)).status).toBe(401);
  expect([await sms('one'), await sms('two'), await sms('three')]).toEqual([503, 503, 201]);
  expect(standIns.arrivals('twilio').map(({ text }) => text)).toEqual(['three']);
  expect((await (await fetch(twilio)).text()).match(/503, as it was told to refuse/g)).toHaveLength(2);

  expect([await fail(twilio, ''), await sms('four'), await sms('five')]).toEqual([204, 503, 201]);
  expect([await fail(twilio, ''), await fail(twilio, '?messages=0'), await sms('six')]).toEqual([
    204, 204, 201,
  ]);
  for (const wrong of ['?messages=1001', '?messages=-1', '?messages=1.5', '?messages=x'])
    expect(await fail(twilio, wrong)).toBe(400);

  standIns.fail('resend', 1);
  const mail = async () => {
    const headers = { authorization: 'Bearer re_1', 'content-type': 'application/json' };
    const body = JSON.stringify({ from: 'a@b.example', to: ['c@d.example'], subject: 'Hi', text: 'Hello' });
    return (await fetch(`${resend}/emails`, { method: 'POST', headers, body })).status;
  };
  expect([await mail(), mails.length, await mail(), mails.length]).toEqual([503, 0, 200, 1]);
});
