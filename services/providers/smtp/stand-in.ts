import type { AddressInfo, Socket } from 'node:net';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { STAND_IN_CERTIFICATE, STAND_IN_KEY } from './stand-in-certificate.ts';

/** One mail that the stand-in accepted. */
export type ReceivedMail = {
  readonly envelope: { readonly from: string; readonly to: readonly string[] };
  /** Header and body as received, without dot-stuffing. */
  readonly raw: string;
  /** Whether the client announced octets above 127 in the mail (RFC 6152). */
  readonly isAnnounced8Bit: boolean;
  readonly user: string | null;
  readonly isEncrypted: boolean;
  /** Milliseconds since the epoch. */
  readonly at: number;
};

export type SmtpStage = 'greeting' | 'auth' | 'sender' | 'recipient' | 'content';

export type SmtpFault =
  /** Sends this reply instead of the usual one; `text` may begin with an enhanced status code. */
  | { readonly kind: 'reply'; readonly code: number; readonly text: string }
  /** Reports that the stage was reached, and never answers. At `content`, after the final dot. */
  | { readonly kind: 'hang'; readonly onReached?: () => void }
  /** Closes the connection. At `content`, after the final dot. */
  | { readonly kind: 'reset' };

export type SmtpStandIn = AsyncDisposable & {
  readonly host: string;
  readonly port: number;
  /** The most recent mails, oldest first. */
  readonly received: readonly ReceivedMail[];
  /** Every password that clients sent, oldest first. */
  readonly passwords: readonly string[];
  /** Makes the next session that reaches the stage fail there; faults queue up. */
  readonly fail: (stage: SmtpStage, fault: SmtpFault) => void;
};

export type SmtpStandInOptions = {
  /** Default: a free port. */
  readonly port?: number;
  /** The largest mail, as the server announces it. Default: any size. */
  readonly bytesMax?: number;
  /** How many mails are kept. Default 1000. */
  readonly keep?: number;
  /** `starttls` (default) offers STARTTLS, `tls` uses TLS from the first byte, `none` is unencrypted. */
  readonly encryption?: 'starttls' | 'tls' | 'none';
  /** Whether it offers SMTPUTF8 (RFC 6531). Default true. */
  readonly takesUtf8?: boolean;
  /** Returns whether a mailbox does not exist. Default: all exist. */
  readonly isUnknown?: (address: string) => boolean;
  /** Called with every mail, for an inbox that displays them. */
  readonly onMail?: (mail: ReceivedMail) => void;
};

type Answer = (error?: Error | null) => void;

/** Starts a mail server on loopback. It accepts any user, any recipient, and mails without a login. */
export async function startSmtpStandIn(options: SmtpStandInOptions = {}): Promise<SmtpStandIn> {
  const { port = 0, bytesMax, keep = 1_000, encryption = 'starttls' } = options;
  const { onMail, takesUtf8 = true, isUnknown = () => false } = options;
  const received: ReceivedMail[] = [];
  const passwords: string[] = [];
  const faults: { readonly stage: SmtpStage; readonly fault: SmtpFault }[] = [];
  const sockets = new Set<Socket>();

  function pass(stage: SmtpStage, answer: Answer): void {
    const position = faults.findIndex((one) => one.stage === stage);
    const fault = faults.splice(position, position === -1 ? 0 : 1)[0]?.fault;
    if (fault === undefined) return answer();
    if (fault.kind === 'reply')
      return answer(Object.assign(new Error(fault.text), { responseCode: fault.code }));
    if (fault.kind === 'hang') return fault.onReached?.();
    for (const socket of sockets) socket.destroy();
  }

  const handlers: SMTPServerOptions = {
    onConnect: (_session, answer) => pass('greeting', answer),
    onAuth(auth, _session, answer) {
      if (typeof auth.password === 'string') passwords.push(auth.password);
      pass('auth', (error) => answer(error, { user: auth.username ?? '' }));
    },
    onMailFrom: (_address, _session, answer) => pass('sender', answer),
    onRcptTo({ address }, _session, answer) {
      if (!isUnknown(address)) return pass('recipient', answer);
      answer(Object.assign(new Error('5.1.1 No such user here'), { responseCode: 550 }));
    },
    onData(stream, session, answer) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => void chunks.push(chunk));
      stream.on('end', () => {
        const { mailFrom, rcptTo, bodyType } = session.envelope;
        const mail: ReceivedMail = {
          envelope: {
            from: mailFrom === false ? '' : mailFrom.address,
            to: rcptTo.map(({ address }) => address),
          },
          raw: Buffer.concat(chunks).toString(),
          isAnnounced8Bit: bodyType === '8bitmime',
          user: typeof session.user === 'string' ? session.user : null,
          isEncrypted: session.secure,
          at: Date.now(),
        };
        pass('content', (error) => {
          if (error === undefined || error === null) remember(mail);
          answer(error);
        });
      });
    },
  };

  function remember(mail: ReceivedMail): void {
    received.push(mail);
    if (received.length > keep) received.shift();
    onMail?.(mail);
  }

  const server = new SMTPServer({
    ...handlers,
    secure: encryption === 'tls',
    key: STAND_IN_KEY,
    cert: STAND_IN_CERTIFICATE,
    authOptional: true,
    allowInsecureAuth: true,
    authMethods: ['PLAIN', 'LOGIN', 'XOAUTH2'],
    disabledCommands: encryption === 'none' ? ['STARTTLS'] : [],
    disableReverseLookup: true,
    hideENHANCEDSTATUSCODES: true,
    hideSMTPUTF8: !takesUtf8,
    ...(bytesMax === undefined ? {} : { size: bytesMax }),
    closeTimeout: 1,
    logger: false,
  });
  // Errors of clients that disconnect are the client's to report.
  server.on('error', () => {});
  server.server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => void sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return {
    host: '127.0.0.1',
    port: (server.server.address() as AddressInfo).port,
    received,
    passwords,
    fail: (stage, fault) => void faults.push({ stage, fault }),
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(resolve));
    },
  };
}
