import SMTPConnection, { type SMTPConnectionOptions } from 'nodemailer/lib/smtp-connection';
import XOAuth2 from 'nodemailer/lib/xoauth2';
import { cramMd5 } from './cram-md5.ts';
import { firstOpened } from './first-opened.ts';

/** How long a server may leave its side of a closed connection open. */
const CLOSE_TIMEOUT_MS = 1_000;

/** All that a server may send in a session: many times the longest replies of known servers, with some ten replies a session. */
const SESSION_BYTES_MAX = 65_536;

/** Code of the error of a server that sends more. */
export const REPLY_TOO_LONG = 'EREPLYSIZE';

export type SmtpError = Error & {
  code?: string;
  originalCode?: string;
  response?: string;
  responseCode?: number;
  command?: string;
};

export type SmtpLogin =
  | { readonly user: string; readonly pass: string }
  | { readonly user: string; readonly accessToken: string };

export type SessionOptions = Omit<SMTPConnectionOptions, 'host' | 'connectionTimeout' | 'greetingTimeout'> & {
  /** Of the host, in the order in which to try them. */
  readonly addresses: readonly string[];
  /** Until the connection, the greeting and TLS are there, over all addresses. */
  readonly connectTimeoutMs: number;
  /** Returns whether another address of the host may not have this fault. */
  readonly mayDiffer: (error: SmtpError) => boolean;
};

/** A connection after the greeting and TLS. */
type Opened = {
  readonly connection: SMTPConnection;
  /** Rejects when the connection ends or the signal aborts. */
  readonly broken: Promise<never>;
  readonly close: () => void;
};

/**
 * Runs `work` in one session: connect to one of the addresses, TLS, greeting, login. Rejects with the first error of any step (with
 * nodemailer's codes) or when the signal aborts; always closes the connection. `takesUtf8`: whether the server offers SMTPUTF8.
 */
export async function inSession<T>(
  { addresses, connectTimeoutMs, mayDiffer, ...options }: SessionOptions,
  login: SmtpLogin | undefined,
  signal: AbortSignal,
  work: (connection: SMTPConnection, takesUtf8: boolean) => Promise<T>,
): Promise<T> {
  const { connection, broken, close } = await firstOpened(addresses, {
    open: (host, withinMs, until) =>
      openConnection({ ...options, host, connectionTimeout: withinMs, greetingTimeout: withinMs }, until),
    withinMs: connectTimeoutMs,
    mayDiffer,
    signal,
  });

  async function steps(): Promise<T> {
    // The last reply so far is the one to EHLO, or to HELO, which offers nothing.
    const takesUtf8 = /^250[ -]SMTPUTF8\b/im.test(connection.lastServerResponse || '');
    if (login !== undefined) await step((done) => connection.login(authOf(login), done));
    return work(connection, takesUtf8);
  }

  try {
    const result = await Promise.race([steps(), broken]);
    // The answer is not awaited (as in Postfix, smtp_skip_quit_response): a server could keep the connection open with it.
    connection.quit();
    return result;
  } catch (error) {
    throw refusalBefore(error as SmtpError, connection);
  } finally {
    close();
  }
}

/** Where nodemailer keeps the replies to a pipelined envelope (RFC 2920). */
const ENVELOPE = '_envelope';
type Refusals = { readonly mailError?: SmtpError; readonly rejectedErrors?: readonly SmtpError[] };

/**
 * Returns the refusal of the sender or the recipient, if the session ended after it. In a pipeline nodemailer tells of it only with
 * the reply to DATA, which a server that closes the connection after the refusal never gives.
 */
function refusalBefore(error: SmtpError, connection: SMTPConnection): SmtpError {
  const { mailError, rejectedErrors = [] } =
    (connection as unknown as { readonly [ENVELOPE]?: Refusals })[ENVELOPE] ?? {};
  return error.responseCode === undefined ? (mailError ?? rejectedErrors[0] ?? error) : error;
}

/**
 * nodemailer calls this method with everything that the server sends, without TLS. Its own limit is for a reply that is not complete:
 * complete ones, and blank lines, of which it reads one in each turn of the event loop, are kept without a limit.
 */
const READ = '_onData';
type Reader = { [READ]: (chunk: Buffer) => void };

/** Connects, up to the answer to EHLO, over TLS if the options ask for it. Closes the connection if that fails or the signal aborts. */
async function openConnection(options: SMTPConnectionOptions, signal: AbortSignal): Promise<Opened> {
  const connection = new SMTPConnection({
    ...options,
    customAuth: { 'CRAM-MD5': cramMd5 },
    socketCloseTimeout: CLOSE_TIMEOUT_MS,
  });
  const broken = Promise.withResolvers<never>();
  broken.promise.catch(() => {});
  function close(): void {
    connection.close();
    signal.removeEventListener('abort', giveUp);
  }
  function giveUp(): void {
    broken.reject(Object.assign(new Error('The deadline passed'), { code: 'ETIMEDOUT' }));
    close();
  }
  const ended = () =>
    broken.reject(Object.assign(new Error('The connection ended'), { code: 'ECONNECTION' }));
  let received = 0;
  const reader = connection as unknown as Reader;
  const read = reader[READ].bind(connection);
  reader[READ] = (chunk) => {
    received += chunk.length;
    if (received <= SESSION_BYTES_MAX) return read(chunk);
    broken.reject(Object.assign(new Error('The server sent too much'), { code: REPLY_TOO_LONG }));
    close();
  };
  connection.on('error', broken.reject);
  // The running step is notified a tick later and has the server's reply, so it must reject first.
  connection.on('end', () => setImmediate(ended));
  signal.addEventListener('abort', giveUp, { once: true });
  try {
    if (signal.aborted) giveUp();
    else await Promise.race([step((done) => connection.connect(done)), broken.promise]);
    if (signal.aborted) await broken.promise;
    return { connection, broken: broken.promise, close };
  } catch (error) {
    close();
    throw error;
  }
}

/** Does not use nodemailer's own token fetching: it would bypass the guarded client. */
function authOf(login: SmtpLogin) {
  const { user } = login;
  return 'pass' in login
    ? { user, pass: login.pass }
    : { user, method: 'XOAUTH2', oauth2: new XOAuth2({ user, accessToken: login.accessToken }) };
}

/** Runs one callback-style step of the connection as a promise. */
export function step<T = unknown>(
  start: (done: (error?: Error | null, value?: T) => void) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    start((error, value) => {
      if (error === undefined || error === null) resolve(value as T);
      else reject(error);
    });
  });
}
