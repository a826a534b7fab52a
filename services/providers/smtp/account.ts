import { X509Certificate } from 'node:crypto';
import { z } from 'zod';
import { headerText, mailAddress, optionalToken } from '../fields.ts';
import type { FieldFault } from '../provider.ts';

const HOST =
  /^(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?)*\.?|\[?[0-9A-Fa-f:.]{2,45}\]?)$/;

export const config = z.object({
  host: z
    .string()
    .max(253, 'Must be at most 253 characters')
    .regex(HOST, 'Must be a host name or an IP address')
    .describe(
      'Host name or IP address of the mail server. Private addresses need the permission of the operator.',
    ),
  port: z
    .int('Must be a whole number')
    .min(1, 'Must be at least 1')
    .max(65_535, 'Must be at most 65535')
    .default(587)
    .describe(
      'Port: 587 (STARTTLS, the default), 465 (TLS), 25 or 2525. Others need the permission of the operator.',
    ),
  secure: z
    .boolean()
    .optional()
    .describe('Whether to use TLS from the first byte. Default: true on port 465, else false.'),
  requireTls: z
    .boolean()
    .optional()
    .describe(
      'Whether to refuse servers without STARTTLS. Default: true on port 587 and with a username, else false.',
    ),
  username: headerText('User name; needs a password, or oauthIssuer with its secrets.').optional(),
  oauthIssuer: z
    .enum(['google', 'microsoft'])
    .optional()
    .describe(
      'Who gives access tokens for the mailbox (XOAUTH2) in place of a password: google or microsoft.',
    ),
  oauthTenant: z
    .string()
    .regex(/^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$/, 'Must be a directory id or a domain')
    .default('common')
    .describe(
      'Directory of the mailbox at microsoft: its id or domain. Default common; needed without a refresh token.',
    ),
  from: mailAddress('Default sender address; used with `fromName`.').optional(),
  fromName: headerText('Sender name used with `from` when the message gives none.').optional(),
  replyTo: mailAddress('Where replies go when the message does not say.').optional(),
  clientName: z
    .string()
    .max(253, 'Must be at most 253 characters')
    .regex(HOST, 'Must be a host name or an IP address')
    .optional()
    .describe('Name given to the mail server in EHLO. Default: the name of the sending machine.'),
  caCertificate: z
    .string()
    .max(32_768, 'Must be at most 32768 characters')
    .refine(isCertificate, 'Must be a certificate in PEM form')
    .optional()
    .describe('Certificate authority of the mail server, PEM, where it is not a public one.'),
});

export const secrets = z.object({
  password: z
    .string()
    .min(1, 'Must not be empty')
    .max(1_024, 'Must be at most 1024 characters')
    // oxlint-disable-next-line no-control-regex -- NUL separates the fields of AUTH PLAIN
    .regex(/^[^\u0000\r\n]+$/, 'Must not contain line breaks or NUL')
    .optional()
    .describe('Password of the user; needed with username, unless oauthIssuer is set.'),
  clientId: optionalToken('OAuth client id; needed with oauthIssuer.'),
  clientSecret: optionalToken('OAuth client secret; needed with oauthIssuer.'),
  refreshToken: optionalToken(
    'OAuth refresh token of the mailbox; needed with google. At microsoft it ends after 90 days; without one the application signs in by itself.',
  ),
});

export type Account = {
  readonly config: z.output<typeof config>;
  readonly secrets: z.output<typeof secrets>;
};

type Config = Account['config'];

/** Normalizes the host name: lower case, without the root's trailing dot and without the brackets of an IP address. */
export function hostOf({ host }: Config): string {
  return host.replace(/^\[|\]$|\.$/g, '').toLowerCase();
}

export function isTlsFromStart({ secure, port }: Config): boolean {
  return secure ?? port === 465;
}

/** Returns whether nothing, in particular not the login, may be sent over an unencrypted connection. */
export function isTlsRequired(config: Config): boolean {
  const { requireTls, port, username } = config;
  return isTlsFromStart(config) || (requireTls ?? (port === 587 || username !== undefined));
}

/** Returns all trusted certificates, however the file is wrapped: it may contain further authorities after the first. */
export function trustedAuthorities({ caCertificate }: Config): string | undefined {
  return caCertificate?.replaceAll(/\s+/g, '');
}

export function checkAccount({ config, secrets }: Account): readonly FieldFault[] {
  if (config.oauthIssuer === undefined) {
    return config.username === undefined ? [] : missing(secrets, ['password'], 'publicConfig.username');
  }
  const user: readonly FieldFault[] =
    config.username === undefined ? [required('publicConfig.username', 'publicConfig.oauthIssuer')] : [];
  const client = missing(secrets, ['clientId', 'clientSecret'], 'publicConfig.oauthIssuer');
  if (secrets.refreshToken !== undefined) return [...user, ...client];
  const grant =
    config.oauthIssuer === 'microsoft'
      ? directoryFaults(config)
      : missing(secrets, ['refreshToken'], 'publicConfig.oauthIssuer');
  return [...user, ...client, ...grant];
}

/** Microsoft gives an application a token for one directory alone; these names stand for many. */
const SHARED_DIRECTORIES: readonly string[] = ['common', 'organizations', 'consumers'];

function directoryFaults({ oauthTenant }: Config): readonly FieldFault[] {
  if (!SHARED_DIRECTORIES.includes(oauthTenant.toLowerCase())) return [];
  const message = 'Must be a directory id or a domain without secretConfig.refreshToken';
  return [{ field: 'publicConfig.oauthTenant', rule: 'required', message }];
}

function missing(
  secrets: Account['secrets'],
  fields: readonly (keyof Account['secrets'])[],
  because: string,
): readonly FieldFault[] {
  return fields
    .filter((field) => secrets[field] === undefined)
    .map((field) => required(`secretConfig.${field}`, because));
}

function required(field: string, because: string): FieldFault {
  return { field, rule: 'required', message: `Required with ${because}` };
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).ca;
  } catch {
    return false;
  }
}
