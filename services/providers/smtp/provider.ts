import { isIP } from 'node:net';
import { Readable } from 'node:stream';
import type { SMTPConnectionOptions } from 'nodemailer/lib/smtp-connection';
import type { Failure } from '#core/domain/failure.ts';
import type { Outcome } from '#core/domain/outcome.ts';
import { defineProvider, type ResolvedHost } from '../provider.ts';
import { redact, secretStrings } from '../redact.ts';
import { account as mendAccount, transient, type Ruling } from '../ruling.ts';
import { checkAccount, config, secrets, type Account } from './account.ts';
import { composeMail } from './mail.ts';
import {
  CERTIFICATE,
  ENCRYPTION,
  rulingOfReply,
  SESSION_CODES,
  SOCKET_CODES,
  type Stage,
} from './outcomes.ts';
import { inSession, step, type SmtpError, type SmtpLogin } from './session.ts';

const CONNECT_TIMEOUT_MS = 5_000;
const SILENCE_TIMEOUT_MS = 15_000;
const REPLY_BYTES_MAX = 65_536;

export default defineProvider({
  id: 'smtp',
  channel: 'email',
  name: 'SMTP server',
  dedupe: 'none',
  receipts: false,
  config,
  secrets,
  check: checkAccount,

  async send(message, account, context): Promise<Outcome> {
    const mail = await composeMail(message, account.config);
    const resolved = await context.resolve(account.config.host, account.config.port);
    if (resolved.kind === 'refused') return refusedHost(resolved);
    let isBodyLeft = false;
    try {
      await inSession(
        sessionOptions(account, resolved.address),
        loginOf(account),
        context.signal,
        (connection) => {
          // The final dot follows the end of this stream; until then a server must not take the mail (RFC 5321, 4.1.1.4).
          const body = Readable.from([mail.raw], { objectMode: false }).once('end', () => {
            isBodyLeft = true;
          });
          return step((done) =>
            connection.send(
              { ...mail.envelope, to: [...mail.envelope.to], size: mail.raw.length },
              body,
              done,
            ),
          );
        },
      );
      return { kind: 'accepted', providerMessageId: mail.messageId };
    } catch (error) {
      return outcomeOf(error as SmtpError, isBodyLeft, [...hiddenOf(account), ...mail.envelope.to]);
    }
  },

  async verify(account, context) {
    const resolved = await context.resolve(account.config.host, account.config.port);
    if (resolved.kind === 'refused') {
      const { failure } = refusedHost(resolved);
      return { kind: resolved.code === 'dns' ? 'unknown' : 'invalid', failure };
    }
    try {
      await inSession(
        sessionOptions(account, resolved.address),
        loginOf(account),
        context.signal,
        async () => {},
      );
      return { kind: 'valid' };
    } catch (error) {
      const { failure } = judgeError(error as SmtpError, hiddenOf(account));
      return { kind: failure.class === 'auth_or_config' ? 'invalid' : 'unknown', failure };
    }
  },
});

/** Connects to the address that the guard has checked; the host name remains what the certificate must prove. */
function sessionOptions({ config }: Account, address: string): SMTPConnectionOptions {
  const secure = config.secure ?? config.port === 465;
  const host = config.host.replace(/^\[|\]$|\.$/g, '');
  return {
    host: address,
    port: config.port,
    secure,
    requireTLS: !secure && (config.requireTls ?? (config.port === 587 || config.username !== undefined)),
    ...(isIP(host) === 0 ? { servername: host } : {}),
    tls: {
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ...(config.caCertificate === undefined ? {} : { ca: config.caCertificate }),
    },
    ...(config.clientName === undefined ? {} : { name: config.clientName }),
    connectionTimeout: CONNECT_TIMEOUT_MS,
    greetingTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SILENCE_TIMEOUT_MS,
    maxResponseSize: REPLY_BYTES_MAX,
    logger: false,
  };
}

function loginOf({ config, secrets }: Account): SmtpLogin | undefined {
  return config.username === undefined ? undefined : { user: config.username, pass: secrets.password ?? '' };
}

function refusedHost(
  resolved: Extract<ResolvedHost, { kind: 'refused' }>,
): Extract<Outcome, { kind: 'rejected_transient' }> {
  const ruling =
    resolved.code === 'dns' ? transient('provider_unavailable', 'dns') : mendAccount('egress_blocked');
  return { kind: 'rejected_transient', failure: { class: ruling.class, code: ruling.code } };
}

function outcomeOf(error: SmtpError, isBodyLeft: boolean, hidden: readonly string[]): Outcome {
  const { failure, retry } = judgeError(error, hidden);
  if (isBodyLeft && error.responseCode === undefined) {
    return { kind: 'ambiguous', failure: { class: 'provider_unavailable', code: failure.code } };
  }
  return retry ? { kind: 'rejected_transient', failure } : { kind: 'rejected_permanent', failure };
}

function judgeError(
  error: SmtpError,
  hidden: readonly string[],
): { readonly failure: Failure; readonly retry: boolean } {
  const enhanced = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(error.response ?? '')?.[1];
  const ruling = rulingOfError(error, enhanced);
  const said =
    error.responseCode === undefined
      ? {}
      : {
          providerCode:
            enhanced === undefined ? String(error.responseCode) : `${error.responseCode} ${enhanced}`,
          providerMessage: redact(error.response ?? '', hidden),
        };
  return { failure: { class: ruling.class, code: ruling.code, ...said }, retry: ruling.retry };
}

function rulingOfError(error: SmtpError, enhanced: string | undefined): Ruling {
  if (error.command === 'STARTTLS') return isCertificateError(error) ? CERTIFICATE : ENCRYPTION;
  if (error.responseCode !== undefined) return rulingOfReply(stageOf(error), error.responseCode, enhanced);
  if (isCertificateError(error)) return CERTIFICATE;
  const known = SOCKET_CODES[error.originalCode ?? ''] ?? SESSION_CODES[error.code ?? ''];
  return known ?? transient('provider_unavailable', 'connection_closed');
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

function hiddenOf({ config, secrets }: Account): string[] {
  const { username = '' } = config;
  const password = secretStrings(secrets);
  return [...password, ...password.map((one) => `\0${username}\0${one}`)];
}
