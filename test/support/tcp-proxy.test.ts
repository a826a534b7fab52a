import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { startTcpProxy } from './tcp-proxy.ts';

/** Sets up a server that sends everything twice, behind a proxy that reports a moment for each `!`. */
async function setup() {
  const stack = new AsyncDisposableStack();
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (bytes) => socket.write(Buffer.concat([bytes, bytes])));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const proxy = stack.use(
    await startTcpProxy(
      port,
      () => (direction, bytes) => (direction === 'up' && bytes.includes('!') ? ['mark'] : []),
    ),
  );
  const client = connect(proxy.port, '127.0.0.1');
  await once(client, 'connect');
  stack.defer(() => void client.destroy());
  let heard = '';
  client.setEncoding('utf8').on('data', (text: string) => (heard += text));
  const closed = once(client, 'close').catch(() => {});
  client.on('error', () => {});
  return { client, proxy, closed, heard: () => heard, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

test('bytes pass through while no moment is held', async () => {
  await using b = await setup();
  b.client.write('a!');
  await expect.poll(b.heard).toBe('a!a!');
});

test('a held moment and all later bytes wait until its release', async () => {
  await using b = await setup();
  const mark = b.proxy.hold('mark');
  b.client.write('a');
  await expect.poll(b.heard).toBe('aa');
  b.client.write('b!');
  await mark.reached;
  b.client.write('c');
  expect(b.heard()).toBe('aa');
  mark.release('pass');
  await expect.poll(b.heard).toMatch(/^aab!.*c$/);
});

test('a moment released with cut is not forwarded and ends the connection', async () => {
  await using b = await setup();
  const mark = b.proxy.hold('mark');
  b.client.write('b!');
  await mark.reached;
  mark.release('cut');
  await b.closed;
  expect(b.heard()).toBe('');
});

test('bytes held by a frozen proxy arrive when it thaws', async () => {
  await using b = await setup();
  b.proxy.freeze();
  b.client.write('a');
  await expect.poll(() => b.client.bytesWritten).toBe(1);
  expect(b.heard()).toBe('');
  b.proxy.thaw();
  await expect.poll(b.heard).toBe('aa');
});
