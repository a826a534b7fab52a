import { createHmac } from 'node:crypto';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { describe, expect, test, vi } from 'vitest';
import { inSession, REPLY_TOO_LONG, step, type SmtpError } from './session.ts';

type Server = AsyncDisposable & { readonly port: number; readonly open: ReadonlySet<Socket> };

/** Starts a server that answers each line by the function, and `DATA` and a mail as usual. */
async function startServer(
  answer: (line: string, socket: Socket) => string | undefined,
  { host = '127.0.0.1', port = 0, greetsAfterMs = 0, allowHalfOpen = false } = {},
): Promise<Server> {
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen }, (socket) => {
    let rest = '';
    let isMail = false;
    open.add(socket.on('error', () => {}));
    socket.once('close', () => void open.delete(socket));
    if (greetsAfterMs === 0) socket.write('220 mail.test\r\n');
    else if (Number.isFinite(greetsAfterMs))
      setTimeout(() => socket.write('220 mail.test\r\n'), greetsAfterMs);
    socket.on('data', (bytes) => {
      const lines = (rest + bytes.toString()).split('\r\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (isMail && line !== '.') continue;
        isMail = line === 'DATA';
        const text = isMail ? '354 Go on' : answer(line, socket);
        if (text !== undefined) socket.write(`${text}\r\n`);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  return {
    port: (server.address() as AddressInfo).port,
    open,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const LOGIN = { user: 'mailer', pass: 'pass-word' };
const signal = () => AbortSignal.timeout(30_000);
const optionsOf = ({ port }: Pick<Server, 'port'>) =>
  ({
    addresses: ['127.0.0.1'],
    connectTimeoutMs: 10_000,
    mayDiffer: () => true,
    port,
    secure: false,
    logger: false,
  }) as const;

function login(server: Server): Promise<string> {
  return inSession(optionsOf(server), LOGIN, signal(), () => Promise.resolve('open'));
}

/** Starts a server that offers CRAM-MD5 alone, and returns what clients answered to its challenge. */
async function startCramServer(challenge: string, verdict = '235 2.7.0 Welcome') {
  const answers: string[] = [];
  const server = await startServer((line) => {
    if (line.startsWith('EHLO')) return '250-mail.test\r\n250 AUTH CRAM-MD5';
    if (line === 'AUTH CRAM-MD5') return `334 ${challenge}`;
    if (line === 'QUIT') return '221 Bye';
    answers.push(Buffer.from(line, 'base64').toString());
    return verdict;
  });
  return { server, answers };
}

test('a server that offers CRAM-MD5 alone gets the digest of its challenge', async () => {
  const challenge = '<1896.697170952@postoffice.reston.mci.net>';
  const { server, answers } = await startCramServer(` ${btoa(challenge)} `);
  await using _ = server;
  expect(await login(server)).toBe('open');
  const digest = createHmac('md5', LOGIN.pass).update(challenge).digest('hex');
  expect(answers).toEqual([`mailer ${digest}`]);
});

test('a refused CRAM-MD5 login fails with the reply', async () => {
  const { server } = await startCramServer(btoa('<1@a>'), '535 5.7.8 Bad credentials');
  await using _ = server;
  await expect(login(server)).rejects.toMatchObject({
    code: 'EAUTH',
    responseCode: 535,
    response: '535 5.7.8 Bad credentials',
  });
});

test('a challenge that is none is refused in little time, whatever its length', async () => {
  const { server, answers } = await startCramServer(`${' '.repeat(60_000)}a\rx`);
  await using _ = server;
  const before = process.cpuUsage();
  await expect(login(server)).rejects.toMatchObject({ code: 'EAUTH' });
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_000);
  expect(answers).toEqual([]);
});

test.each([
  ['MAIL FROM', '550 5.1.8 Bad sender'],
  ['RCPT TO', '550 5.1.1 No such user'],
  ['RCPT TO', '452 4.2.2 Over quota'],
])(
  'a refusal of %s in a pipeline fails with the reply %s, even if the server then closes',
  async (command, reply) => {
    const refuses = (line: string, socket: Socket) => {
      if (line.startsWith('EHLO')) return '250-mail.test\r\n250 PIPELINING';
      if (line.startsWith(command)) socket.end(`${reply}\r\n`);
      return line.startsWith(command) || !socket.writable ? undefined : '250 OK';
    };
    await using server = await startServer(refuses);
    const sending = inSession(optionsOf(server), undefined, signal(), (connection) => {
      const body = Readable.from([Buffer.from('Subject: a\r\n\r\na')], { objectMode: false });
      return step((done) => connection.send({ from: 'a@b.example', to: ['c@d.example'] }, body, done));
    });
    await expect(sending).rejects.toMatchObject({ command, responseCode: Number(reply.slice(0, 3)) });
  },
);

/** For `vi.waitFor`, because `expect.poll` does not know its test when several run together. */
const CLOSING = { timeout: 4_000 };

// The tests from here on mostly wait, and do so together.
test.concurrent('the connection closes soon after the work, even if the server never ends its answer to QUIT', async () => {
  const dripsAtTheEnd = (line: string, socket: Socket) => {
    if (line !== 'QUIT') return '250 OK';
    const dripping = setInterval(() => socket.write('2'), 100).unref();
    socket.once('close', () => clearInterval(dripping));
    return undefined;
  };
  await using server = await startServer(dripsAtTheEnd, { allowHalfOpen: true });
  await inSession(optionsOf(server), undefined, signal(), (connection) => {
    const body = Readable.from([Buffer.from('Subject: a\r\n\r\na')], { objectMode: false });
    return step((done) => connection.send({ from: 'a@b.example', to: ['c@d.example'] }, body, done));
  });
  await vi.waitFor(() => expect(server.open.size).toBe(0), CLOSING);
});

describe.concurrent('what a server sends', () => {
  const line = 'x'.repeat(1_000);

  /** Runs a session with a server that sends this after its greeting, again and again, and returns how it ends. */
  async function floodedBy(flood: string) {
    const server = createServer((socket) => {
      const more = () => {
        while (socket.writable && socket.write(flood));
      };
      socket.on('error', () => {}).on('drain', more);
      socket.write('220 mail.test\r\n');
      more();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const begun = performance.now();
    const ended = await inSession(optionsOf({ port }), undefined, AbortSignal.timeout(3_000), () =>
      Promise.resolve('open'),
    ).catch((error: SmtpError) => error);
    const ms = performance.now() - begun;
    await new Promise((resolve) => server.close(resolve));
    return { ended, ms };
  }

  test.each([
    ['a line that never ends', line],
    ['a reply that never ends', `250-${line}\r\n`],
    ['blank lines', '\r\n'.repeat(1_000)],
    ['lines of blanks', ' \n'.repeat(1_000)],
  ])('ends the session soon if it is too much: %s', async (_, flood) => {
    const { ended, ms } = await floodedBy(flood);
    expect(ended).toMatchObject({ code: REPLY_TOO_LONG });
    expect(ms).toBeLessThan(2_000);
  });

  test('may be many replies, each with lines of the length that the protocol allows', async () => {
    const longest = Array.from({ length: 8 }, () => `250-${'x'.repeat(508)}`).join('\r\n');
    await using server = await startServer((command) =>
      command === 'QUIT' ? '221 Bye' : `${longest}\r\n250 OK`,
    );
    const sent = inSession(optionsOf(server), undefined, signal(), (connection) => {
      const body = Readable.from([Buffer.from('Subject: a\r\n\r\na')], { objectMode: false });
      return step((done) => connection.send({ from: 'a@b.example', to: ['c@d.example'] }, body, done));
    });
    await expect(sent).resolves.toMatchObject({ accepted: ['c@d.example'] });
  });
});

describe.concurrent('a host with several addresses', () => {
  const HEALTHY = (line: string) => (line === 'QUIT' ? '221 Bye' : '250 OK');
  /** What each address made of a session with the time of two seconds. */
  async function openAt(port: number, addresses: readonly string[]) {
    const begun = performance.now();
    const options = { ...optionsOf({ port }), addresses, connectTimeoutMs: 2_000 };
    const host = await inSession(options, undefined, signal(), (connection) =>
      Promise.resolve(connection.host),
    ).catch((error: SmtpError) => error.code);
    return { host, ms: performance.now() - begun };
  }

  test.each<[title: string, answer: (line: string) => string | undefined, greetsAfterMs: number]>([
    ['never greets', HEALTHY, Number.POSITIVE_INFINITY],
    ['never answers EHLO', () => undefined, 0],
    [
      'never begins TLS',
      (line) => (line.startsWith('EHLO') ? '250-mail.test\r\n250 STARTTLS' : '220 Ready'),
      0,
    ],
  ])('is called at the next one after the share of one that %s', async (_, answer, greetsAfterMs) => {
    await using second = await startServer(HEALTHY);
    await using first = await startServer(answer, { host: '127.0.0.2', port: second.port, greetsAfterMs });
    const { host, ms } = await openAt(second.port, ['127.0.0.2', '127.0.0.1']);
    expect(host).toBe('127.0.0.1');
    expect(ms).toBeGreaterThan(900);
    expect(ms).toBeLessThan(1_900);
    await vi.waitFor(() => expect(first.open.size).toBe(0), CLOSING);
  });

  test('is called at the next one at once after one that closes before the greeting', async () => {
    await using second = await startServer(HEALTHY);
    const first = createServer((socket) => void socket.destroy());
    await new Promise<void>((resolve) => first.listen(second.port, '127.0.0.2', resolve));
    const { host, ms } = await openAt(second.port, ['127.0.0.2', '127.0.0.1']);
    expect(host).toBe('127.0.0.1');
    expect(ms).toBeLessThan(900);
    await new Promise((resolve) => first.close(resolve));
  });

  test('may withhold its greeting for longer than the share of one', async () => {
    const late = { greetsAfterMs: 1_300 };
    await using first = await startServer(HEALTHY, late);
    await using second = await startServer(HEALTHY, { ...late, host: '127.0.0.2', port: first.port });
    expect(await openAt(first.port, ['127.0.0.1', '127.0.0.2'])).toMatchObject({ host: '127.0.0.1' });
    await vi.waitFor(() => expect(second.open.size).toBe(0), CLOSING);
  });

  test('none of which greets fails after the whole time, with every connection closed', async () => {
    const silent = { greetsAfterMs: Number.POSITIVE_INFINITY };
    await using first = await startServer(HEALTHY, silent);
    await using second = await startServer(HEALTHY, { ...silent, host: '127.0.0.2', port: first.port });
    const { host, ms } = await openAt(first.port, ['127.0.0.1', '127.0.0.2', '127.0.0.3']);
    expect(host).toBe('ETIMEDOUT');
    expect(ms).toBeGreaterThan(1_900);
    expect(ms).toBeLessThan(3_000);
    await vi.waitFor(() => expect(first.open.size + second.open.size).toBe(0), CLOSING);
  });

  test('is left at every address when the deadline passes', async () => {
    const silent = { greetsAfterMs: Number.POSITIVE_INFINITY };
    await using first = await startServer(HEALTHY, silent);
    await using second = await startServer(HEALTHY, { ...silent, host: '127.0.0.2', port: first.port });
    const options = {
      ...optionsOf(first),
      addresses: ['127.0.0.1', '127.0.0.2', '127.0.0.3'],
      connectTimeoutMs: 1_000,
    };
    const session = inSession(options, undefined, AbortSignal.timeout(500), () => Promise.resolve('open'));
    await expect(session).rejects.toMatchObject({ code: 'ETIMEDOUT', message: 'The deadline passed' });
    await vi.waitFor(() => expect(first.open.size + second.open.size).toBe(0), CLOSING);
  });
});
