import { createHmac } from 'node:crypto';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { inSession, step } from './session.ts';

type Server = AsyncDisposable & { readonly port: number; readonly open: ReadonlySet<Socket> };

/** Starts a server that answers each line by the function, and `DATA` and a mail as usual. */
async function startServer(answer: (line: string, socket: Socket) => string | undefined): Promise<Server> {
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    let rest = '';
    let isMail = false;
    open.add(socket.on('error', () => {}));
    socket.once('close', () => void open.delete(socket));
    socket.write('220 mail.test\r\n');
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
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
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
const optionsOf = ({ port }: Server) => ({ host: '127.0.0.1', port, secure: false, logger: false }) as const;

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
  const { server, answers } = await startCramServer(`${' '.repeat(100_000)}a\rx`);
  await using _ = server;
  const before = process.cpuUsage();
  await expect(login(server)).rejects.toMatchObject({ code: 'EAUTH' });
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_000);
  expect(answers).toEqual([]);
});

test('the connection closes soon after the work, even if the server never ends its answer to QUIT', async () => {
  await using server = await startServer((line, socket) => {
    if (line !== 'QUIT') return '250 OK';
    const dripping = setInterval(() => socket.write('2'), 100).unref();
    socket.once('close', () => clearInterval(dripping));
    return undefined;
  });
  await inSession(optionsOf(server), undefined, signal(), (connection) => {
    const body = Readable.from([Buffer.from('Subject: a\r\n\r\na')], { objectMode: false });
    return step((done) => connection.send({ from: 'a@b.example', to: ['c@d.example'] }, body, done));
  });
  await expect.poll(() => server.open.size, { timeout: 4_000 }).toBe(0);
});
