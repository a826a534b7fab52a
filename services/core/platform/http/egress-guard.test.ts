import { describe, expect, test } from 'vitest';
import { addressBlocker, addressOpener, createEgressGuard, isCidr } from './egress-guard.ts';

const PORTS = [25, 465, 587, 2525];
const PUBLIC_V4 = '93.184.215.14';
const PUBLIC_V6 = '2606:2800:21f:cb07:6820:80da:af6b:8b2c';

function guardOver(addresses: readonly string[], allowCidrs: readonly string[] = []) {
  return createEgressGuard({ allowCidrs, ports: PORTS, resolveHost: async () => addresses });
}

describe('an address inside a network', () => {
  test.each([
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f000001',
    '0x7f.1',
    '0177.0.0.1',
    '017700000001',
    '127.0.0.1.',
    '[::1]',
    '::1',
    '0:0:0:0:0:0:0:1',
    '::ffff:127.0.0.1',
    '[::ffff:7f00:1]',
    '::127.0.0.1',
    '0.0.0.0',
    '0',
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '::ffff:169.254.169.254',
    '100.64.0.1',
    '100.100.100.200',
    '192.0.0.192',
    '192.0.2.1',
    '192.88.99.1',
    '198.18.0.1',
    '198.19.255.255',
    '198.51.100.1',
    '203.0.113.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '168.63.129.16',
    '::',
    'fe80::1',
    'fec0::1',
    'fc00::1',
    'fd00:ec2::254',
    'ff02::1',
    '64:ff9b::7f00:1',
    '64:ff9b::10.0.0.1',
    '[64:ff9b::a9fe:a9fe]',
    '64:ff9b::168.63.129.16',
    '64:ff9b:0:0:0:1:5db8:d70e',
    '64:ff9b:1::7f00:1',
    '64:ff9b:1::192.168.1.1',
    '64:ff9b:1:5db8:d7:e00::',
    '64:ff9b:1:1::93.184.215.14',
    '64:ff9b:2::93.184.215.14',
    '::5db8:d70e',
    '::ffff:0:93.184.215.14',
    '2002:7f00:1::1',
    '2002:5db8:d70e::1',
    '2001::1',
    '2001:0:5db8:d70e::1',
    '2001:db8::1',
    '100::1',
    '4000::1',
  ])('is refused as %s', async (host) => {
    expect(await guardOver([]).resolve(host, 587)).toEqual({ kind: 'refused', code: 'egress_blocked' });
    expect(addressBlocker([])(host.replace(/\.$/, ''))).toBe(true);
    expect((await guardOver([host.replace(/^\[|\]$|\.$/g, '')]).resolve('mail.example', 587)).kind).toBe(
      'refused',
    );
  });

  test('is refused if it is one of several addresses of a name', async () => {
    for (const addresses of [
      [PUBLIC_V4, '10.0.0.1'],
      ['10.0.0.1', PUBLIC_V4],
      [PUBLIC_V6, '::1'],
    ]) {
      expect(await guardOver(addresses).resolve('mail.example', 587)).toEqual({
        kind: 'refused',
        code: 'egress_blocked',
      });
    }
  });

  test('is allowed on any port if the operator has opened its range, and only then', async () => {
    const ranges = ['10.20.0.0/16', ' ::1/128 '];
    expect(ranges.every(isCidr)).toBe(true);
    const guard = guardOver(['10.20.0.5'], ranges);
    expect(await guard.resolve('mail.internal', 12_345)).toEqual({
      kind: 'resolved',
      addresses: ['10.20.0.5'],
    });
    expect(await guard.resolve('::ffff:10.20.0.5', 25)).toEqual({
      kind: 'resolved',
      addresses: ['10.20.0.5'],
    });
    expect(await guard.resolve('[::1]', 1)).toEqual({ kind: 'resolved', addresses: ['::1'] });
    expect(await guard.resolve('10.21.0.5', 25)).toMatchObject({ kind: 'refused' });
  });
});

describe('a public host', () => {
  test.each([PUBLIC_V4, PUBLIC_V6])('at %s resolves to the address to connect to', async (address) => {
    expect(await guardOver([address]).resolve('mail.example.', 587)).toEqual({
      kind: 'resolved',
      addresses: [address],
    });
    expect(await guardOver([]).resolve(address, 587)).toEqual({ kind: 'resolved', addresses: [address] });
  });

  test.each([
    ['64:ff9b::93.184.215.14', '64:ff9b::5db8:d70e'],
    ['[64:ff9b:1::5db8:d70e]', '64:ff9b:1::5db8:d70e'],
  ])('reached through NAT64 as %s is judged by its IPv4 address', async (host, address) => {
    const resolved = { kind: 'resolved', addresses: [address] };
    expect(await guardOver([]).resolve(host, 587)).toEqual(resolved);
    expect(await guardOver([address]).resolve('mail.example', 587)).toEqual(resolved);
    expect(await guardOver([address]).resolve('mail.example', 22)).toMatchObject({ kind: 'refused' });
    expect(addressBlocker([])(host)).toBe(false);
    expect(addressOpener(['93.184.0.0/16'])(host)).toBe(true);
    expect(addressOpener(['93.185.0.0/16'])(host)).toBe(false);
  });

  test('of an IPv6-only network with DNS64 keeps both of its addresses', async () => {
    const both = (v4: string) =>
      guardOver([v4, `64:ff9b::${v4}`], ['10.20.0.0/16']).resolve('mail.example', 587);
    expect(await both(PUBLIC_V4)).toEqual({
      kind: 'resolved',
      addresses: [PUBLIC_V4, '64:ff9b::5db8:d70e'],
    });
    expect(await both('10.20.0.5')).toEqual({ kind: 'resolved', addresses: ['10.20.0.5', '64:ff9b::a14:5'] });
    expect(await both('10.21.0.5')).toMatchObject({ kind: 'refused' });
  });

  test('resolves to its other addresses too, one of the other family first', async () => {
    const others = ['93.184.215.15', '93.184.215.16'];
    expect(await guardOver([PUBLIC_V4, ...others, PUBLIC_V6]).resolve('mail.example', 587)).toEqual({
      kind: 'resolved',
      addresses: [PUBLIC_V4, PUBLIC_V6, ...others],
    });
    expect(await guardOver([PUBLIC_V4, '127.0.0.1']).resolve('mail.example', 587)).toMatchObject({
      kind: 'refused',
    });
  });

  test.each([[22], [80], [5432], [6379]])('is refused on port %i', async (port) => {
    expect(await guardOver([PUBLIC_V4]).resolve('mail.example', port)).toEqual({
      kind: 'refused',
      code: 'egress_blocked',
    });
  });

  test('is resolved once per check, so DNS rebinding has no effect', async () => {
    const answers = [[PUBLIC_V4], ['127.0.0.1']];
    let asked = 0;
    const guard = createEgressGuard({
      allowCidrs: [],
      ports: PORTS,
      resolveHost: async () => answers[asked++] ?? [],
    });
    expect(await guard.resolve('rebind.example', 587)).toEqual({ kind: 'resolved', addresses: [PUBLIC_V4] });
    expect(asked).toBe(1);
    expect(await guard.resolve('rebind.example', 587)).toMatchObject({ kind: 'refused' });
  });
});

test('addressBlocker recognizes blocked addresses without resolving names', () => {
  const isBlocked = addressBlocker(['10.20.0.0/16']);
  const opened = ['10.20.0.5', '[::ffff:10.20.0.5]', '[64:ff9b::10.20.0.5]'];
  const fine = [PUBLIC_V4, `[${PUBLIC_V6}]`, 'mail.example', 'localhost', ...opened];
  expect(fine.filter(isBlocked)).toEqual([]);
  const inside = ['10.21.0.5', '[::ffff:10.21.0.5]', '[64:ff9b::7f00:1]', '[64:ff9b::10.21.0.5]', '0x7f.1'];
  expect(inside.filter((host) => !isBlocked(host))).toEqual([]);
  expect(() => addressBlocker(['everywhere'])).toThrow('Not an address range: everywhere');
});

describe('a host that cannot be resolved', () => {
  test.each([
    '',
    '.',
    'a..b',
    'mail.example/x',
    'user@mail.example',
    'mail example',
    'fe80::1%eth0',
    '1.2.3.4.5',
    '256.1.1.1',
    'x.0x1',
  ])('%j is refused', async (host) => {
    expect(await guardOver([PUBLIC_V4]).resolve(host, 587)).toMatchObject({ kind: 'refused' });
  });

  test('is refused if the resolver fails, finds nothing or returns no address', async () => {
    const resolvers = [
      () => Promise.reject(new Error('ENOTFOUND')),
      async () => [],
      async () => ['not an address'],
    ];
    for (const resolveHost of resolvers) {
      const guard = createEgressGuard({ allowCidrs: [], ports: PORTS, resolveHost });
      expect(await guard.resolve('mail.example', 587)).toEqual({ kind: 'refused', code: 'dns' });
    }
  });
});

test.each(['10.0.0.0', '10.0.0.0/33', 'example.com', '*'])(
  'creating a guard with the invalid range %j throws',
  (cidr) => {
    expect(isCidr(cidr)).toBe(false);
    expect(() => guardOver([], [cidr])).toThrow(`Not an address range: ${cidr}`);
  },
);

test('addressOpener opens addresses in opened ranges, and names if any range is open', () => {
  const isOpen = addressOpener(['10.20.0.0/16']);
  const hosts = ['10.20.1.1', '[::ffff:10.20.1.1]', '10.21.1.1', '93.184.215.14', 'hooks.example'];
  expect(hosts.map(isOpen)).toEqual([true, true, false, false, true]);
  expect(addressOpener([])('hooks.example')).toBe(false);
});
