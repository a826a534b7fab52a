import ipaddr from 'ipaddr.js';
import type { ResolvedHost } from '#core/domain/sending/resolved-host.ts';
import { answerWithin } from '../process/deadline.ts';
import type { HostResolver } from './host-resolver.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = readonly [Address, number];

export type EgressGuardOptions = {
  /** Ranges that the operator opens, on every port, for example `10.20.0.0/16`. Anything that is not a range throws. */
  readonly allowCidrs: readonly string[];
  /** Ports that tenants may use with any other address. */
  readonly ports: readonly number[];
  readonly resolveHost: HostResolver;
};

export type EgressGuard = {
  /**
   * Resolves a host chosen by a tenant, and checks every address and the port. The caller connects to a returned address, so
   * that a second resolution cannot change it.
   */
  readonly resolve: (host: string, port: number) => Promise<ResolvedHost>;
};

const DNS_TIMEOUT_MS = 5_000;

/** Public address space that is reachable only from inside a cloud: Azure's platform endpoint. */
const CLOUD_INTERNAL: readonly Network[] = [ipaddr.parseCIDR('168.63.129.16/32')];
/** All address space that IANA has allocated for global unicast; special ranges inside it have range names of their own. */
const GLOBAL_V6 = ipaddr.parseCIDR('2000::/3');

/**
 * The prefixes that NAT64 translators use by convention: the well-known one (RFC 6052), and the first of those for local use (RFC
 * 8215). Elsewhere in `64:ff9b:1::/48` only the translator knows which bits are the IPv4 address, so such addresses stay refused.
 * In any other layout an address of these prefixes stands for one in 0.0.0.0/24, which no translator can reach.
 */
const TRANSLATED: readonly Network[] = ['64:ff9b::/96', '64:ff9b:1::/96'].map((cidr) =>
  ipaddr.parseCIDR(cidr),
);

/** Creates the guard, which keeps connections chosen by tenants away from private, local and special networks. */
export function createEgressGuard(options: EgressGuardOptions): EgressGuard {
  const allowed = options.allowCidrs.map(parseNetwork);
  const ports = new Set(options.ports);

  async function addressesOf(host: string): Promise<readonly Address[] | undefined> {
    const name = host.endsWith('.') ? host.slice(0, -1) : host;
    const literal = parseLiteral(name);
    if (literal !== undefined) return [literal];
    if (!isHostName(name)) return undefined;
    try {
      const found = await answerWithin('dns', options.resolveHost(name), DNS_TIMEOUT_MS);
      return found.map((address) => canonical(ipaddr.parse(address)));
    } catch {
      return undefined;
    }
  }

  async function resolve(host: string, port: number): Promise<ResolvedHost> {
    const addresses = await addressesOf(host);
    const first = addresses?.[0];
    if (addresses === undefined || first === undefined) return { kind: 'refused', code: 'dns' };
    const isFine = (address: Address) =>
      isOpened(address, allowed) || (isGlobal(reachedBy(address)) && ports.has(port));
    if (!addresses.every(isFine)) return { kind: 'refused', code: 'egress_blocked' };
    // Where one family has no route, the other one may have.
    const rest = addresses.slice(1);
    const ofOtherFamily = rest.filter((one) => one.kind() !== first.kind()).slice(0, 1);
    const others = [...ofOtherFamily, ...rest.filter((one) => !ofOtherFamily.includes(one))];
    return { kind: 'resolved', addresses: [first.toString(), ...others.map(String)] };
  }

  return { resolve };
}

/**
 * Returns a function that decides whether a host is an IP address, in any notation, that tenants must not use. It returns false
 * for names, whose addresses are known only after resolution.
 * @throws Error for an invalid range, when the function is created.
 */
export function addressBlocker(allowCidrs: readonly string[]): (host: string) => boolean {
  const allowed = allowCidrs.map(parseNetwork);
  return (host) => {
    const literal = parseLiteral(host);
    return literal !== undefined && !isGlobal(reachedBy(literal)) && !isOpened(literal, allowed);
  };
}

/**
 * Returns a function that decides whether every port of a host may be called: true for an address that the operator has opened,
 * and for every name if any range is opened, because its addresses are known only after resolution.
 * @throws Error for an invalid range, when the function is created.
 */
export function addressOpener(allowCidrs: readonly string[]): (host: string) => boolean {
  const allowed = allowCidrs.map(parseNetwork);
  return (host) => {
    const literal = parseLiteral(host);
    return literal === undefined ? allowed.length > 0 : isOpened(literal, allowed);
  };
}

/** Returns true for an address range such as `10.20.0.0/16` or `fd00::/8`. */
export function isCidr(text: string): boolean {
  return ipaddr.isValidCIDR(text.trim());
}

function parseNetwork(cidr: string): Network {
  try {
    return ipaddr.parseCIDR(cidr.trim());
  } catch {
    throw new Error(`Not an address range: ${cidr}`);
  }
}

/** Parses every notation that a resolver accepts as an address: decimal, octal, hexadecimal, short, bracketed, mapped. */
function parseLiteral(host: string): Address | undefined {
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
  if (ipaddr.IPv4.isValid(bare)) return ipaddr.IPv4.parse(bare);
  return ipaddr.IPv6.isValid(bare) ? canonical(ipaddr.IPv6.parse(bare)) : undefined;
}

/** Converts an IPv4-mapped IPv6 address to the IPv4 address. */
function canonical(address: Address): Address {
  return address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() ? address.toIPv4Address() : address;
}

/**
 * Returns whether a name consists of letters, digits and hyphens, and its last label is not numeric: resolvers parse such a name
 * as an address.
 */
function isHostName(name: string): boolean {
  const labels = name.split('.');
  const isLabel = (label: string) => /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?$/i.test(label);
  return name.length <= 253 && labels.every(isLabel) && !/^(?:\d+|0x[0-9a-f]*)$/i.test(labels.at(-1) ?? '');
}

/**
 * Returns the address at which a connection ends: behind a NAT64 translator that is the IPv4 address in the last four bytes of an
 * IPv6 address. In an IPv6-only network with DNS64 every IPv4 host has such an address.
 */
function reachedBy(address: Address): Address {
  if (!(address instanceof ipaddr.IPv6) || !isInside(address, TRANSLATED)) return address;
  return new ipaddr.IPv4(address.toByteArray().slice(-4));
}

function isOpened(address: Address, allowed: readonly Network[]): boolean {
  return isInside(address, allowed) || isInside(reachedBy(address), allowed);
}

function isGlobal(address: Address): boolean {
  if (address.range() !== 'unicast' || isInside(address, CLOUD_INTERNAL)) return false;
  return address.kind() === 'ipv4' || address.match(GLOBAL_V6);
}

function isInside(address: Address, networks: readonly Network[]): boolean {
  return networks.some(([base, bits]) => base.kind() === address.kind() && address.match(base, bits));
}
