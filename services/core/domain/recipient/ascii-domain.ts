import { domainToASCII } from 'node:url';

/** Names of hosts, in ASCII or not; the underscore occurs although no host's name may have it. */
const NAME = /^(?:[A-Za-z0-9._-]|\P{ASCII})+$/u;

/**
 * Returns an internationalized domain in ASCII and in lower case (RFC 5890); undefined for a text that no domain can have. The
 * converter reads the host of a URL: it would end a domain before `#`, `/` or `?`, which RFC 5322 permits, and decode `%2E`. The
 * owner of `victim.example#é.example` would be taken for an owner of `victim.example`.
 */
export function asciiDomain(domain: string): string | undefined {
  return NAME.test(domain) ? domainToASCII(domain) || undefined : undefined;
}
