/** Whether a host that a tenant named is an IP address, in any notation, that must not be called. */
export type IsBlockedHost = (host: string) => boolean;

/** The fault of a host that must not be called. */
export const HOST_BLOCKED = {
  rule: 'url_blocked',
  message: 'Must not name a private, local or special address',
} as const;

const LOCAL = /(?:^|\.)localhost$/;

/** Returns the host without a dot at its end; for a name that always means this machine, its address. */
export function calledHost(hostname: string): string {
  const name = hostname.replace(/\.$/, '').toLowerCase();
  return LOCAL.test(name) ? '127.0.0.1' : name;
}
