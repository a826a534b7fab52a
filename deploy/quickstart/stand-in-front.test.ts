import { connect } from 'node:http2';
import { expect, test } from 'vitest';
import { startStandIn } from '#providers/stand-in.ts';
import { freePort } from '../servers/ports.ts';
import { openStandInFront } from './stand-in-front.ts';

async function openFront() {
  return openStandInFront(await freePort(), (request, response) => {
    response.writeHead(404).end(`nobody at ${request.url}`);
  });
}

test('each stand-in gets the requests below its own path, without that prefix', async () => {
  await using front = await openFront();
  const start = (name: string) =>
    startStandIn(({ path }) => ({ status: 200, body: `${name} at ${path}` }), {
      place: front.placeOf(name),
    });
  await using one = await start('one');
  await using two = await start('two-b');
  const read = async (url: string) => (await fetch(url)).text();
  expect(await read(`${one.origin}/messages?a=/two-b`)).toBe('one at /messages?a=/two-b');
  expect(await read(`${two.origin}?a=1`)).toBe('two-b at /?a=1');
  expect(await read(`${front.origin}/three/messages`)).toBe('nobody at /three/messages');
  expect(await read(`${one.origin}/received`)).toContain('"path":"/messages?a=/two-b"');
});

test('the same address speaks HTTP/2', async () => {
  await using front = await openFront();
  await using standIn = await startStandIn(({ body }) => ({ status: 200, body: `got ${body}` }), {
    place: front.placeOf('apns'),
  });
  const session = connect(front.origin);
  const stream = session.request({ ':method': 'POST', ':path': '/apns/3/device/1' });
  stream.end('a notification');
  let text = '';
  for await (const chunk of stream) text += String(chunk);
  session.close();
  expect(text).toBe('got a notification');
  expect(standIn.received).toMatchObject([{ path: '/3/device/1', body: 'a notification' }]);
});
