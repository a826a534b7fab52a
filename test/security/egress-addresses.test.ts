import { createServer, type AddressInfo, type Socket } from 'node:net';
import ipaddr from 'ipaddr.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import { createEgressGuard, isCidr } from '#core/platform/http/egress-guard.ts';
import { createHostResolver } from '#core/platform/http/host-resolver.ts';
import { createProviderContexts } from '#providers/context.ts';
import { parseAccount } from '#providers/registry.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { startDnsServer, type DnsServer, type DnsQuestion, type DnsReply } from './dns-server.ts';

const PUBLIC_V4 = '93.184.215.14';
const PUBLIC_V6 = '2606:2800:21f:cb07:6820:80da:af6b:8b2c';

/** Addresses of this machine, its network and its cloud, in the form that a name server returns. */
const INSIDE = [
  '127.0.0.1',
  '127.255.255.254',
  '0.0.0.0',
  '10.0.0.1',
  '172.16.0.1',
  '192.168.0.1',
  '169.254.169.254',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  '224.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::127.0.0.1',
  '::ffff:127.0.0.1',
  '::ffff:169.254.169.254',
  '::ffff:0:127.0.0.1',
  '64:ff9b::127.0.0.1',
  '64:ff9b:1::127.0.0.1',
  '2002:7f00:1::',
  '2001:0:7f00:1::',
  'fd00:ec2::254',
  'fc00::1',
  'fe80::1',
  'fec0::1',
  'ff02::1',
];

/** Other spellings that a resolver or a socket may read as this machine. */
const SPELLINGS = [
  'localhost',
  'localhost.',
  'LOCALHOST',
  '127.1',
  '127.0.1',
  '2130706433',
  '017700000001',
  '0x7f000001',
  '0X7F.1',
  '0177.0.0.1',
  '0177.0.0.01',
  '0x7f.0.0.0x1',
  '127.0.0.1.',
  '127.0.0.1..',
  '0',
  '0x0',
  '[::1]',
  '[::]',
  '[0:0:0:0:0:ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '::1%lo',
  '１２７.0.0.1',
  '127。0。0。1',
  'ⓛocalhost',
  'user@127.0.0.1',
  '127.0.0.1:25',
  '127.0.0.1/',
  '127.0.0.1#a.example',
  '127.0.0.1\\.a.example',
  '127.0.0.1\0.a.example',
  ' 127.0.0.1',
  '127.0.0.1\r\n',
];

let listener: Awaited<ReturnType<typeof startListener>>;
beforeAll(async () => {
  listener = await startListener();
});
afterAll(() => listener[Symbol.asyncDispose]());

describe("a mail to a tenant's SMTP server", () => {
  test.each(SPELLINGS)('at %j reaches no internal address', async (host) => {
    await using setup = await mailerOver(() => ['127.0.0.1', '::1']);
    const before = listener.connections();
    expect(['not an account', 'egress_blocked', 'dns']).toContain(await setup.send(host));
    expect(listener.connections()).toBe(before);
  });

  test.each(INSIDE)('at a name that resolves to %s is blocked', async (address) => {
    await using setup = await mailerOver(({ name }) => {
      if (name.startsWith('alias')) return { alias: 'inside.example', addresses: [address] };
      if (name.startsWith('first')) return [address, PUBLIC_V4, PUBLIC_V6];
      return name.startsWith('last') ? [PUBLIC_V4, PUBLIC_V6, address] : [address];
    });
    const before = listener.connections();
    const written = address.includes(':') ? `[${address}]` : address;
    for (const host of ['plain.example', 'alias.example', 'first.example', 'last.example', written]) {
      expect(await setup.send(host)).toBe('egress_blocked');
    }
    expect(listener.connections()).toBe(before);
  });

  test('connects to the address that was checked, even if the DNS answer changes each time', async () => {
    // A connection to 0.0.0.0 reaches this machine too, but the allowed range does not include it.
    await using setup = await mailerOver(
      ({ before }) => [before % 2 === 0 ? '127.0.0.1' : '0.0.0.0'],
      ['127.0.0.1/32'],
    );
    const before = listener.connections();
    for (let i = 0; i < 10; i += 1) {
      expect(await setup.send('rebind.example')).not.toBe('egress_blocked');
      expect(await setup.send('rebind.example')).toBe('egress_blocked');
    }
    expect(listener.connections() - before).toBe(10);
    expect(setup.dns.asked.filter(({ type }) => type === 'A')).toHaveLength(20);
  });
});

describe('CIDR ranges that the operator allows', () => {
  test.each([
    ['10.20.0.0/16', ['10.20.0.0', '10.20.255.255', '::ffff:10.20.1.1'], ['10.19.255.255', '10.21.0.0']],
    ['10.20.30.40/32', ['10.20.30.40'], ['10.20.30.39', '10.20.30.41']],
    ['10.20.30.40/31', ['10.20.30.40', '10.20.30.41'], ['10.20.30.39', '10.20.30.42']],
    ['10.20.30.41/30', ['10.20.30.40', '10.20.30.43'], ['10.20.30.39', '10.20.30.44']],
    ['127.0.0.0/8', ['127.0.0.1', '127.255.255.255'], ['126.255.255.255', '128.0.0.0', '::1', '0.0.0.0']],
    ['0.0.0.0/0', ['10.0.0.1', '169.254.169.254', '255.255.255.255', '64:ff9b::a00:1'], ['::1', 'fd00::1']],
    [
      'fd00:1::/32',
      ['fd00:1::', 'fd00:1:ffff:ffff:ffff:ffff:ffff:ffff'],
      ['fd00:0:ffff::', 'fd00:2::', '10.0.0.1'],
    ],
    ['::1/128', ['::1'], ['::', '::2', '127.0.0.1']],
  ] as const)('%s allows its own addresses and no others', async (cidr, opened, closed) => {
    expect(isCidr(cidr)).toBe(true);
    for (const address of [...opened, ...closed]) {
      const guard = createEgressGuard({ allowCidrs: [cidr], ports: [], resolveHost: async () => [address] });
      const kinds = [
        (await guard.resolve(address, 4_711)).kind,
        (await guard.resolve('a.example', 4_711)).kind,
      ];
      const expected = (opened as readonly string[]).includes(address) ? 'resolved' : 'refused';
      expect({ address, kinds }).toEqual({ address, kinds: [expected, expected] });
    }
  });

  test('match an address by each bit of their prefix', async () => {
    for (let bits = 0; bits <= 32; bits += 1) {
      const cidr = `10.77.170.85/${bits}`;
      const guard = createEgressGuard({ allowCidrs: [cidr], ports: [], resolveHost: async () => [] });
      const base = toNumber('10.77.170.85');
      // Each address differs from the base in one bit. It is outside the range if that bit belongs to the prefix.
      for (let bit = 0; bit < 32; bit += 1) {
        const address = toAddress((base ^ (1 << (31 - bit))) >>> 0);
        const { kind } = await guard.resolve(address, 1);
        expect({ cidr, address, kind }).toEqual({ cidr, address, kind: bit < bits ? 'refused' : 'resolved' });
      }
    }
  });
});

async function mailerOver(reply: (question: DnsQuestion) => DnsReply, allowCidrs: readonly string[] = []) {
  const dns: DnsServer = await startDnsServer(reply);
  const smtp = PROVIDERS.get('smtp');
  if (smtp === undefined) throw new Error('The catalog has no SMTP');
  const guard = createEgressGuard({
    allowCidrs,
    ports: [listener.port],
    resolveHost: createHostResolver({ servers: [dns.address] }),
  });
  const contexts = createProviderContexts({
    http: async () => ({ kind: 'not_sent', code: 'unexpected' }),
    resolve: guard.resolve,
  });

  /** Sends a mail. @returns its failure code; the listener refuses every mail. */
  async function send(host: string): Promise<string> {
    const account = parseAccount(
      smtp as never,
      { host, port: listener.port, secure: false, requireTls: false },
      {},
    );
    if (!account.ok) return 'not an account';
    const context = contexts({
      provider: 'smtp',
      accountId: 'account',
      version: 1,
      until: AbortSignal.timeout(10_000),
    });
    const outcome = await (smtp?.send(MAIL as never, account as never, context) as Promise<Outcome>);
    if (!('failure' in outcome)) return outcome.kind;
    return outcome.failure.code;
  }
  return { dns, send, [Symbol.asyncDispose]: () => dns[Symbol.asyncDispose]() };
}

const MAIL = {
  channel: 'email',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: 'ada@example.com',
  content: { from: { address: 'zoe@acme.example' }, subject: 'Hello', text: 'Hello' },
  expiresAt: Date.now() + 86_400_000,
  attempt: 1,
};

/** Listens on every address of this machine, counts the connections and closes them. */
async function startListener() {
  let connections = 0;
  const server = createServer((socket: Socket) => {
    connections += 1;
    socket.on('error', () => {}).end('554 Not here\r\n');
  });
  await new Promise<void>((resolve) => server.listen(0, resolve));
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

function toNumber(address: string): number {
  return ipaddr.IPv4.parse(address)
    .toByteArray()
    .reduce((sum, byte) => sum * 256 + byte, 0);
}

function toAddress(value: number): string {
  return new ipaddr.IPv4([value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255]).toString();
}
