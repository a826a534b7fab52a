/** A tenant's name in headers and resources: 1 to 63 lower-case letters, digits and inner hyphens. */
export const SLUG = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Names that a tenant declared in the cluster must not use: in a host name, a path or a log line they could be mistaken for a
 * part of the platform. Tenants created through the API may use them, as its contract says.
 */
export const RESERVED_SLUGS: readonly string[] = [
  'admin',
  'api',
  'auth',
  'console',
  'dashboard',
  'default',
  'despatch',
  'docs',
  'health',
  'internal',
  'login',
  'metrics',
  'null',
  'root',
  'static',
  'status',
  'support',
  'system',
  'undefined',
  'www',
];
