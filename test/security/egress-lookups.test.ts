import { lookup } from 'node:dns/promises';
import { createServer, type AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { createEgressGuard } from '#core/platform/http/egress-guard.ts';
import { createHostResolver, isNameServer } from '#core/platform/http/host-resolver.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { startDnsServer, type DnsQuestion, type DnsReply } from './dns-server.ts';

const LOOPBACK = ['127.0.0.1'];

async function guardOver(reply: (question: DnsQuestion) => DnsReply) {
  const dns = await startDnsServer(reply);
  const resolveHost = createHostResolver({ servers: [dns.address] });
  const guard = createEgressGuard({ allowCidrs: ['127.0.0.0/8', '::1/128'], ports: [], resolveHost });
  return { dns, guard, [Symbol.asyncDispose]: () => dns[Symbol.asyncDispose]() };
}

describe('DNS lookups without an answer', () => {
  test('delay no other lookup, neither of tenants nor of the process itself', async () => {
    await using setup = await guardOver(({ name }) => (name.includes('.slow.') ? 'silence' : LOOPBACK));
    const { dns, guard } = setup;
    await using elsewhere = await startHttpServer();
    await using http = createHttpClient();
    let ended = 0;
    const slow = Array.from({ length: 100 }, async (_, i) => {
      const resolved = await guard.resolve(`mail${i}.slow.example`, 587);
      ended += 1;
      return resolved;
    });
    await expect.poll(() => new Set(dns.asked.map(({ name }) => name)).size).toBe(100);

    for (let i = 0; i < 20; i += 1) {
      const other = await guard.resolve(`mail${i}.other.example`, 587);
      expect(other).toEqual({ kind: 'resolved', addresses: ['127.0.0.1'] });
    }
    // Uses the system's resolver, as the connections to Postgres, NATS, Vault and the HTTP providers do.
    await Promise.all(Array.from({ length: 20 }, () => lookup('localhost')));
    const answer = await http({ method: 'GET', url: `http://localhost:${elsewhere.port}/` });
    expect(answer).toMatchObject({ kind: 'response', status: 200 });
    expect(ended).toBe(0);

    expect(new Set((await Promise.all(slow)).map((one) => JSON.stringify(one)))).toEqual(
      new Set([JSON.stringify({ kind: 'refused', code: 'dns' })]),
    );
  });
});

describe('a name', () => {
  test('is queried once for concurrent lookups, and again for later ones', async () => {
    await using setup = await guardOver(() => LOOPBACK);
    const { dns, guard } = setup;
    const names = ['mail.example', 'MAIL.example', 'mail.example.'];
    await Promise.all(Array.from({ length: 30 }, (_, i) => guard.resolve(names[i % 3] ?? '', 587)));
    expect(dns.asked).toHaveLength(2);
    await guard.resolve('mail.example', 587);
    expect(dns.asked).toHaveLength(4);
  });

  test.each([
    ['AAAA', LOOPBACK, '127.0.0.1'],
    ['A', ['::1'], '::1'],
  ])(
    'whose %s query gets no answer resolves to the other address family',
    async (silent, addresses, address) => {
      await using setup = await guardOver(({ type }) => (type === silent ? 'silence' : addresses));
      const found = await setup.guard.resolve('half.example', 587);
      expect(found).toEqual({ kind: 'resolved', addresses: [address] });
    },
  );

  test.each(['unknown name', 'server failure', []] as const)(
    'without an address (%j) is refused, and the failure is cached',
    async (reply) => {
      await using setup = await guardOver(() => reply);
      const { dns, guard } = setup;
      expect(await guard.resolve('gone.example', 587)).toEqual({ kind: 'refused', code: 'dns' });
      const { length } = dns.asked;
      for (let i = 0; i < 10; i += 1) await guard.resolve('gone.example', 587);
      expect(dns.asked).toHaveLength(length);
    },
  );

  test('of one label uses neither a search domain nor the hosts file', async () => {
    await using setup = await guardOver(({ name }) => (name === 'postgres' ? LOOPBACK : 'unknown name'));
    const { dns, guard } = setup;
    expect(await guard.resolve('localhost', 587)).toEqual({ kind: 'refused', code: 'dns' });
    expect(await guard.resolve('vault', 587)).toEqual({ kind: 'refused', code: 'dns' });
    expect(new Set(dns.asked.map(({ name }) => name))).toEqual(new Set(['localhost', 'vault']));
  });
});

test.each([
  ['10.0.0.53', true],
  ['10.0.0.53:5353', true],
  ['fd00::53', true],
  ['[fd00::53]:5353', true],
  ['dns.example', false],
  ['10.0.0.53:0', false],
  ['10.0.0.53:65536', false],
  ['[10.0.0.53]:53', false],
  ['[fd00::53]', false],
  ['', false],
])('%j is a valid name server: %s', (text, isOne) => {
  expect(isNameServer(text)).toBe(isOne);
  if (isOne) expect(() => createHostResolver({ servers: [text] })).not.toThrow();
});

async function startHttpServer(): Promise<AsyncDisposable & { readonly port: number }> {
  const server = createServer((socket) =>
    socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')),
  );
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}
