import { z } from 'zod';
import { Secret } from '#core/domain/storage/secret.ts';
import type { Notes } from './describe-variable.ts';
import { splitList, withDefault } from './variables.ts';

/** Parameters of a connection string that the driver reads; it would send all others to the server as settings of the session. */
const POSTGRES_PARAMETERS = ['sslmode', 'ssl', 'sslnegotiation', 'target_session_attrs'];

/**
 * Returns a variable for a connection string of Postgres. Parameters are few: a setting of the session there would override one
 * that the services rely on, such as its time limit, or would be refused by the server.
 */
export function postgresUrl(description: string): z.ZodType<Secret> {
  const protocols = ['postgres:', 'postgresql:'];
  return z
    .string()
    .refine((value) => isUrl(ofFirstHost(value), protocols) && HOSTS.test(value), {
      error: `${urlRule(protocols)}, with one host or several, as host:port,host:port`,
      abort: true,
    })
    .refine(
      (value) => hasDecodableLogin(ofFirstHost(value)),
      'must have % in its user or password only before two hexadecimal digits (%25 for a %)',
    )
    .refine(
      (value) =>
        new URL(ofFirstHost(value)).searchParams.keys().every((name) => POSTGRES_PARAMETERS.includes(name)),
      `must have no parameters but ${POSTGRES_PARAMETERS.join(', ')}`,
    )
    .transform((value) => new Secret(value))
    .meta({ description, type: 'secret URL', secret: true } satisfies Notes);
}

/** Returns a variable for a URL of one of the protocols (`https:`), without credentials; trailing slashes are removed. */
export function url(description: string, protocols: readonly string[]): z.ZodType<string> {
  return z
    .string()
    .refine(
      (value) => isUrl(value, protocols) && !hasCredentials(value),
      `${urlRule(protocols)}, without credentials`,
    )
    .transform((value) => value.replace(/\/+$/, ''))
    .meta({ description, type: 'URL' } satisfies Notes);
}

/** Returns a variable for URLs separated by commas. */
export function urlList(
  description: string,
  protocols: readonly string[],
  fallback?: string,
): z.ZodType<readonly string[]> {
  const schema = z
    .string()
    .transform(splitList)
    .refine(
      (values) =>
        values.length > 0 && values.every((value) => isUrl(value, protocols) && !hasCredentials(value)),
      `must be a list of URLs; each ${urlRule(protocols)}, without credentials`,
    );
  return withDefault(schema, { description, type: 'URLs, separated by commas' }, fallback);
}

function isUrl(value: string, protocols: readonly string[]): boolean {
  return URL.canParse(value) && protocols.includes(new URL(value).protocol) && new URL(value).hostname !== '';
}

/** A list of hosts with or without ports, as libpq and the driver read it: `h1:5432,h2:5433`. */
const HOSTS =
  /^[a-z]+:\/\/(?:[^@/?#]*@)?(?:[^,/?#@:[\]]+|\[[0-9a-f:.]+\])(?::\d+)?(?:,(?:[^,/?#@:[\]]+|\[[0-9a-f:.]+\])(?::\d+)?)*(?:[/?#]|$)/i;

/** Returns the URL with its first host alone: a list is no URL to `URL`. */
function ofFirstHost(value: string): string {
  return value.replace(/^([a-z]+:\/\/(?:[^@/?#]*@)?[^,/?#]+),[^/?#]*/i, '$1');
}

function hasDecodableLogin(value: string): boolean {
  const { username, password } = new URL(value);
  try {
    decodeURIComponent(username);
    decodeURIComponent(password);
    return true;
  } catch {
    return false;
  }
}

function hasCredentials(value: string): boolean {
  const { username, password } = new URL(value);
  return username !== '' || password !== '';
}

function urlRule(protocols: readonly string[]): string {
  return `must be a URL that begins with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`;
}
