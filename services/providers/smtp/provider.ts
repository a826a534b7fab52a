import { isIP } from 'node:net';
import { Readable } from 'node:stream';
import type { Failure } from '#core/domain/sending/failure.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import type { ResolvedHost } from '#core/domain/sending/resolved-host.ts';
import { TENANT_HOST_CIPHERS } from '#core/domain/account/tls-ciphers.ts';
import { forgetAccessToken, TokenRefused, tokenVerdict, withoutToken } from '../oauth.ts';
import { hasAsciiLocalPart } from '../mailbox.ts';
import { defineProvider, type ProviderContext, type Verification } from '../provider.ts';
import { redact, secretStrings } from '../redact.ts';
import { accountFault, transient, type ErrorMeaning } from '../classify-error.ts';
import { unreached } from '../unreached.ts';
import { mailToken } from './access-token.ts';
import {
  checkAccount,
  config,
  hostOf,
  isTlsFromStart,
  isTlsRequired,
  secrets,
  trustedAuthorities,
  type Account,
} from './account.ts';
import { composeMail } from './mail.ts';
import {
  CERTIFICATE,
  ENCRYPTION,
  ENCRYPTION_LATER,
  INVALID_ADDRESS,
  meaningOfReply,
  SESSION_CODES,
  SOCKET_CODES,
  TOO_LARGE,
  UNWRITABLE_RECIPIENT,
  UNWRITABLE_SENDER,
  type Stage,
} from './outcomes.ts';
import { inSession, step, type SessionOptions, type SmtpError, type SmtpLogin } from './session.ts';
import { smtpGuide } from './guide.ts';

/**
 * Until the connection, the greeting and TLS are there, over all addresses of the host; servers that fight spam delay their greeting
 * by six seconds or more.
 */
const CONNECT_TIMEOUT_MS = 12_000;
/**
 * Exchange withholds the answer to a mail for up to 30 s (MaxAcknowledgementDelay), and others scan the content before they answer.
 * A client that times out earlier and retries delivers twice.
 */
const DEADLINE_MS = 40_000;

const SLICE_BYTES = 65_536;

export default defineProvider({
  id: 'smtp',
  channel: 'email',
  name: 'SMTP server',
  dedupe: 'none',
  receipts: null,
  bodyCharactersMax: null,
  deadlineMs: DEADLINE_MS,
  guide: smtpGuide,
  config,
  secrets,
  tenantHost: { setting: 'host', hostOf },
  secretRoute: {
    host: hostOf,
    port: true,
    secure: isTlsFromStart,
    requireTls: isTlsRequired,
    username: true,
    oauthIssuer: true,
    oauthTenant: ({ oauthIssuer, oauthTenant }) => (oauthIssuer === 'microsoft' ? oauthTenant : undefined),
    caCertificate: trustedAuthorities,
    from: false,
    fromName: false,
    replyTo: false,
    clientName: false,
  },
  check: checkAccount,

  async send(message, account, context): Promise<Outcome> {
    const mail = await composeMail(message, account.config);
    const hidden = [...secretsToRedact(account), ...mail.envelope.to];
    const access = await accessTo(account, context);
    if (access instanceof TokenRefused) return withoutToken(access, hidden, context.epochMs());
    if (access.kind === 'refused') return refusedHost(access);
    let isBodyLeft = false;
    try {
      return await inSession(access.options, access.login, context.signal, async (connection, takesUtf8) => {
        const unwritable = takesUtf8 ? undefined : unwritableAddress(mail.envelope.from, message.to);
        if (unwritable !== undefined) return unwritable;
        // The final dot is sent after the end of this stream; before that a server must not accept the mail (RFC 5321,
        // 4.1.1.4).
        const body = Readable.from(slicesOf(mail.raw), { objectMode: false }).once('end', () => {
          isBodyLeft = true;
        });
        const { from, to } = mail.envelope;
        const envelope = { from, to: [...to], size: mail.raw.length, use8BitMime: mail.is8Bit };
        await step((done) => connection.send(envelope, body, done));
        return { kind: 'accepted', providerMessageId: mail.messageId };
      });
    } catch (error) {
      if (isLoginError(error)) forgetAccessToken(context);
      const all = [...hidden, ...loginSecrets(access.login)];
      return outcomeOf(error as SmtpError, { isBodyLeft, to: message.to, hidden: all });
    }
  },

  async verify(account, context): Promise<Verification> {
    // With a remembered token the check would not notice that the grant was revoked.
    forgetAccessToken(context);
    const access = await accessTo(account, context);
    if (access instanceof TokenRefused) return tokenVerdict(access, secretsToRedact(account));
    if (access.kind === 'refused') {
      const { failure } = refusedHost(access);
      return { kind: access.code === 'dns' ? 'unknown' : 'invalid', failure };
    }
    try {
      await inSession(access.options, access.login, context.signal, async () => {});
      return { kind: 'valid' };
    } catch (error) {
      const { failure } = judgeError(error as SmtpError, [
        ...secretsToRedact(account),
        ...loginSecrets(access.login),
      ]);
      return { kind: failure.class === 'auth_or_config' ? 'invalid' : 'unknown', failure };
    }
  },
});

/**
 * Yields the mail in parts, each of which is read once the socket has room for it. As a whole it would be read to its end although
 * the server has taken only its beginning, and a connection that breaks off then would leave open whether the mail was accepted.
 */
function* slicesOf(raw: Buffer): Generator<Buffer> {
  for (let at = 0; at < raw.length; at += SLICE_BYTES) yield raw.subarray(at, at + SLICE_BYTES);
}

type RefusedHost = Extract<ResolvedHost, { kind: 'refused' }>;
type Access = {
  readonly kind: 'open';
  readonly options: SessionOptions;
  readonly login: SmtpLogin | undefined;
};

/** Returns the addresses to connect to and the login; called for every mail, because DNS records and tokens change. */
async function accessTo(
  account: Account,
  context: ProviderContext,
): Promise<Access | RefusedHost | TokenRefused> {
  const resolved = await context.resolve(account.config.host, account.config.port);
  if (resolved.kind === 'refused') return resolved;
  try {
    const login = await loginOf(account, context);
    return { kind: 'open', options: sessionOptions(account, resolved.addresses), login };
  } catch (error) {
    if (error instanceof TokenRefused) return error;
    throw error;
  }
}

async function loginOf(account: Account, context: ProviderContext): Promise<SmtpLogin | undefined> {
  const { username, oauthIssuer } = account.config;
  if (username === undefined) return undefined;
  return oauthIssuer === undefined
    ? { user: username, pass: account.secrets.password ?? '' }
    : { user: username, accessToken: await mailToken(account, oauthIssuer, context) };
}

/** Connects to an address that the egress guard checked; the certificate must still match the host name. */
function sessionOptions({ config }: Account, addresses: readonly string[]): SessionOptions {
  const host = hostOf(config);
  return {
    addresses,
    port: config.port,
    secure: isTlsFromStart(config),
    requireTLS: isTlsRequired(config) && !isTlsFromStart(config),
    ...(isIP(host) === 0 ? { servername: host } : {}),
    tls: {
      ciphers: TENANT_HOST_CIPHERS,
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ...(config.caCertificate === undefined ? {} : { ca: config.caCertificate }),
    },
    ...(config.clientName === undefined ? {} : { name: config.clientName }),
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    // Of an address or the server behind it. Other faults are the account's: the next address has them as well.
    mayDiffer: (error) => meaningOfError(error, undefined).class === 'provider_unavailable',
    // The call's deadline ends a silent session.
    socketTimeout: DEADLINE_MS,
    logger: false,
  };
}

function refusedHost({ code }: RefusedHost): Extract<Outcome, { kind: 'rejected_transient' }> {
  const meaning = code === 'dns' ? transient('provider_unavailable', 'dns') : accountFault('egress_blocked');
  return { kind: 'rejected_transient', failure: { ...unreached(meaning.code), class: meaning.class } };
}

/** Returns the refusal of an address that only a server with SMTPUTF8 can be sent (RFC 6531, 3.2). */
function unwritableAddress(from: string, to: string): Outcome | undefined {
  const meaning = hasAsciiLocalPart(to) ? UNWRITABLE_SENDER : UNWRITABLE_RECIPIENT;
  return hasAsciiLocalPart(to) && hasAsciiLocalPart(from)
    ? undefined
    : { kind: 'rejected_permanent', failure: { class: meaning.class, code: meaning.code } };
}

type Sending = { readonly isBodyLeft: boolean; readonly to: string; readonly hidden: readonly string[] };

function outcomeOf(error: SmtpError, { isBodyLeft, to, hidden }: Sending): Outcome {
  const { failure: judged, retry } = judgeError(error, hidden);
  // For this server the syntax of a non-ASCII mailbox is wrong; another one may take it.
  const isUnsupported = judged.code === INVALID_ADDRESS && !hasAsciiLocalPart(to);
  const failure = isUnsupported ? { ...judged, code: UNWRITABLE_RECIPIENT.code } : judged;
  if (isBodyLeft && error.responseCode === undefined) {
    return { kind: 'ambiguous', failure: unreached(failure.code) };
  }
  return retry ? { kind: 'rejected_transient', failure } : { kind: 'rejected_permanent', failure };
}

function judgeError(
  error: SmtpError,
  hidden: readonly string[],
): { readonly failure: Failure; readonly retry: boolean } {
  const enhanced = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(error.response ?? '')?.[1];
  const meaning = meaningOfError(error, enhanced);
  const { retry, ...failure } = meaning;
  if (error.responseCode === undefined) return { failure: { ...unreached(meaning.code), ...failure }, retry };
  const providerCode =
    enhanced === undefined ? String(error.responseCode) : `${error.responseCode} ${enhanced}`;
  const providerMessage = redact(error.response ?? '', hidden);
  return { failure: { ...failure, providerCode, providerMessage }, retry };
}

function meaningOfError(error: SmtpError, enhanced: string | undefined): ErrorMeaning {
  if (error.command === 'STARTTLS') return meaningOfUpgrade(error);
  if (error.responseCode !== undefined) {
    return meaningOfReply(stageOf(error), error.responseCode, enhanced, error.response);
  }
  if (isCertificateError(error)) return CERTIFICATE;
  if (isAboveAnnouncedSize(error)) return TOO_LARGE;
  if (isRefusedByClient(error)) {
    return error.message.startsWith('Invalid sender') ? UNWRITABLE_SENDER : UNWRITABLE_RECIPIENT;
  }
  const known = SOCKET_CODES[error.originalCode ?? ''] ?? SESSION_CODES[error.code ?? ''];
  return known ?? transient('provider_unavailable', 'connection_closed');
}

/** Returns the meaning of a refused STARTTLS. The text of a temporary refusal may well name the server's certificate. */
function meaningOfUpgrade(error: SmtpError): ErrorMeaning {
  if (error.responseCode !== undefined && error.responseCode < 500) return ENCRYPTION_LATER;
  return isCertificateError(error) ? CERTIFICATE : ENCRYPTION;
}

function stageOf({ command = '', code, responseCode }: SmtpError): Stage {
  if (code === 'EAUTH' || command.startsWith('AUTH')) return 'auth';
  if (command === 'MAIL FROM') return 'sender';
  if (command === 'RCPT TO') return 'recipient';
  if (command === 'DATA') return 'content';
  return responseCode === 421 ? 'content' : 'greeting';
}

function isCertificateError({ message, originalCode = '', code = '' }: SmtpError): boolean {
  return /CERT|SELF_SIGNED|UNABLE_TO_VERIFY/.test(`${originalCode} ${code}`) || /certificate/i.test(message);
}

/**
 * Returns whether nodemailer itself refused the mail, before MAIL FROM, because it is larger than the SIZE that the server
 * announced (RFC 1870). The same code at another command means that the answer to the content has no reply code.
 */
function isAboveAnnouncedSize({ code, command }: SmtpError): boolean {
  return code === 'EMESSAGE' && command === 'MAIL FROM';
}

/** Before any command: an address has characters that no server can be sent. */
function isRefusedByClient({ code, command }: SmtpError): boolean {
  return code === 'EENVELOPE' && command === 'API';
}

function isLoginError(error: unknown): boolean {
  return (error as SmtpError).code === 'EAUTH';
}

function secretsToRedact({ config, secrets }: Account): string[] {
  const { username = '' } = config;
  const all = secretStrings(secrets);
  return [...all, ...all.map((one) => `\0${username}\0${one}`)];
}

function loginSecrets(login: SmtpLogin | undefined): string[] {
  return login !== undefined && 'accessToken' in login
    ? [login.accessToken, `user=${login.user}\u0001auth=Bearer ${login.accessToken}\u0001\u0001`]
    : [];
}
