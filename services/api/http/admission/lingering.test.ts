import { createServer, type IncomingMessage } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { createLingering, type LingeringBounds } from './lingering.ts';

const BOUNDS: LingeringBounds = {
  connectionsMax: 2,
  bytesMax: 1_000_000,
  durationMs: 60_000,
  silenceMs: 60_000,
};

/** Starts a server that lets every connection linger once its headers have arrived, and counts the connections. */
async function setup(bounds: Partial<LingeringBounds>) {
  const lingering = createLingering({ ...BOUNDS, ...bounds });
  const stack = new AsyncDisposableStack();
  const open = new Set<Socket>();
  const server = createServer((request: IncomingMessage) => {
    open.add(request.socket);
    request.socket.once('close', () => open.delete(request.socket));
    lingering.add(request.socket, request);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stack.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  /** Sends headers, waits until the server ends its half, and keeps writing. */
  const come = (): Promise<Socket> =>
    new Promise((resolve) => {
      const { port } = server.address() as AddressInfo;
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      stack.defer(() => void socket.destroy());
      socket.on('error', () => {}).once('end', () => resolve(socket));
      socket.resume().write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n');
    });
  return { lingering, open, come, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

test('a lingering connection is read, and closed after a period of silence', async () => {
  const silenceMs = 1_500;
  await using server = await setup({ silenceMs });
  const client = await server.come();
  const started = performance.now();
  const dripping = setInterval(() => client.write('a'), 50);
  await expect.poll(() => performance.now() - started).toBeGreaterThan(1.2 * silenceMs);
  expect(server.open.size).toBe(1);
  clearInterval(dripping);
  await expect.poll(() => server.open.size).toBe(0);
  expect(performance.now() - started).toBeGreaterThan(2 * silenceMs);
});

test('a lingering connection is closed after its maximum duration even if data arrives', async () => {
  await using server = await setup({ durationMs: 500 });
  const client = await server.come();
  const dripping = setInterval(() => client.write('a'), 20);
  await expect.poll(() => server.open.size).toBe(0);
  clearInterval(dripping);
});

test('a lingering connection is closed after its maximum number of bytes', async () => {
  await using server = await setup({});
  const client = await server.come();
  let written = 0;
  while (server.open.size > 0 && written < 100_000_000) {
    const isWritten = await new Promise((resolve) =>
      client.write(Buffer.alloc(100_000), (error) => resolve(!error)),
    );
    if (isWritten) written += 100_000;
    // A synchronous loop of writes would leave the reader no turn of the event loop.
    await new Promise(setImmediate);
  }
  expect(written).toBeGreaterThanOrEqual(1_000_000);
  // Allows for the kernel's buffers on both sides.
  expect(written).toBeLessThan(50_000_000);
});

test('a connection beyond the maximum closes the oldest one', async () => {
  await using server = await setup({});
  await server.come();
  const [first] = server.open;
  await server.come();
  await server.come();
  await expect.poll(() => server.open.size).toBe(2);
  expect(server.open.has(first as Socket)).toBe(false);
});

test('end() closes all lingering connections and those that are added later', async () => {
  await using server = await setup({});
  await server.come();
  await server.come();
  server.lingering.end();
  await expect.poll(() => server.open.size).toBe(0);
  await server.come();
  await expect.poll(() => server.open.size).toBe(0);
});
