import { expect, test } from 'vitest';
import { secret } from '#core/domain/storage/secret.ts';
import { KeyringError } from '../vault/keyring.ts';
import { createLogger, silentLogger, type LogLevel } from './logger.ts';
import { scrub } from './scrub.ts';

function setup(options: { level?: LogLevel; context?: () => Record<string, unknown> } = {}) {
  const lines: string[] = [];
  const log = createLogger({
    level: options.level ?? 'debug',
    component: 'api',
    destination: { write: (line) => void lines.push(line) },
    ...(options.context === undefined ? {} : { context: options.context }),
  });
  return { log, lines, last: () => JSON.parse(lines.at(-1) ?? 'null') as Record<string, unknown> };
}

test('a line is one JSON object with ts, level, msg, component and its fields', () => {
  const { log, lines, last } = setup();
  log.child({ tenantId: 't1' }).info({ event: 'message.accepted', count: 3 }, 'Accepted\nmessages');
  expect(lines).toHaveLength(1);
  expect(lines[0]?.trimEnd()).not.toContain('\n');
  expect(last()).toEqual({
    ts: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    level: 'info',
    msg: 'Accepted\nmessages',
    component: 'api',
    tenantId: 't1',
    event: 'message.accepted',
    count: 3,
  });
});

test('lines below the level are not written', () => {
  const { log, lines } = setup({ level: 'warn' });
  log.info('Quiet');
  log.warn('Loud');
  expect(lines).toHaveLength(1);
});

test("a line's fields stay out of the lines after it, even where the context is one object", () => {
  const fields = {};
  const { log, last } = setup({ context: () => fields });
  log.info({ tenantId: 't1' }, 'First');
  log.info('Second');
  expect(last()).not.toHaveProperty('tenantId');
  expect(fields).toEqual({});
});

test('the context is read for each line', () => {
  let traceId = 'a';
  const { log, last } = setup({ context: () => ({ traceId }) });
  log.info('One');
  expect(last()).toMatchObject({ traceId: 'a' });
  traceId = 'b';
  log.info('Two');
  expect(last()).toMatchObject({ traceId: 'b' });
});

const CANARY = 'canary7d1e';

test.each([
  'authorization',
  'Authorization',
  'x-service-key',
  'X-Vault-Token',
  'secretConfig',
  'secret_config',
  'password',
  'token',
  'apiKey',
  'privateKey',
  'cookie',
  'to',
  'from',
  'body',
  'bodyHtml',
  'email',
  'data',
  'headers',
])('the value of a field %s is redacted at any depth', (name) => {
  const { log, lines } = setup();
  log.info({ [name]: CANARY, request: { list: [{ deeper: { [name]: { inner: CANARY } } }] } }, 'Line');
  log.child({ [name]: CANARY, nested: { [name]: CANARY } }).info('Line');
  expect(lines.join('')).not.toContain(CANARY);
  expect(lines.join('')).toContain('[redacted]');
});

const CREDENTIALS = {
  'a live key': `dsp_live_k1_${CANARY}_a1b2c3`,
  'a test key': `dsp_test_k1_${CANARY}_a1b2c3`,
  'a bearer token': `Bearer ${CANARY}.x-y`,
  'basic authentication': `basic ${CANARY}==`,
  'a Vault service token': `hvs.${CANARY}`,
  'a Vault batch token': `hvb.${CANARY}`,
  'an old Vault token': `s.${CANARY}0123456789abcdef`,
  'a URL with a password': `postgres://user:${CANARY}@db:5432/x`,
  'a JSON web token': `eyJhbGciOiJub25lIn0.${CANARY}.sig`,
  'a private key': `-----BEGIN PRIVATE KEY-----\n${CANARY}\n-----END PRIVATE KEY-----`,
};

test.each(Object.entries(CREDENTIALS))('%s is removed from messages, fields and errors', (_, credential) => {
  const { log, lines } = setup();
  const cause = new Error(`inner ${credential}`);
  const error = Object.assign(new Error(`outer ${credential}`, { cause }), {
    code: 'ECODE',
    config: { x: CANARY },
  });
  log.error(
    { err: error, note: `note ${credential}`, errors: [new AggregateError([cause], credential)] },
    `Failed ${credential}`,
  );
  expect(lines.join('')).not.toContain(CANARY);
});

test('an error keeps its name, message, code, stack and causes, and nothing else', () => {
  const { log, last } = setup();
  const error = Object.assign(new TypeError('outer', { cause: new RangeError('inner') }), {
    code: 'E1',
    request: 'x',
  });
  log.error({ err: error }, 'Failed');
  expect(last()['err']).toEqual({
    name: 'TypeError',
    message: 'outer',
    code: 'E1',
    stack: expect.stringContaining('logger.test.ts'),
    cause: { name: 'RangeError', message: 'inner', stack: expect.any(String) },
  });
});

test('an error of a dependency is logged with its dependency and fault', () => {
  const { log, last } = setup();
  log.error({ err: new KeyringError('refused', 'no') }, 'Failed');
  expect(last()['err']).toMatchObject({
    name: 'KeyringError',
    code: 'refused',
    dependency: 'vault',
    fault: 'refused',
  });
});

test('wrapped secrets, bytes, cycles and odd values never break or leak a line', () => {
  const { log, lines, last } = setup();
  const cycle: Record<string, unknown> = { at: new Date(0), big: 1n, run: () => CANARY };
  cycle['self'] = cycle;
  log.info({ wrapped: { inner: secret(CANARY) }, bytes: Buffer.from(CANARY), cycle }, 'Line');
  expect(lines.join('')).not.toContain(CANARY);
  expect(last()).toMatchObject({
    wrapped: { inner: '[secret]' },
    bytes: '[redacted]',
    cycle: { at: '1970-01-01T00:00:00.000Z', big: '1', self: '[cut]' },
  });
});

test('ordinary text passes the scrubber unchanged', () => {
  const plain = 'Fetched https://api.example.com/a@b in 3 ms; bearing s.o.s at src/x.ts:12 (dsp_other_1)';
  expect(scrub(plain)).toBe(plain);
});

test.each(Object.values(CREDENTIALS))('%s is scrubbed from any surrounding text', (credential) => {
  for (const text of [credential, `word/${credential}`, `${credential}-word`, `a\n${credential}\nb`]) {
    expect(scrub(text)).not.toContain(CANARY);
  }
});

test.each([
  ['after a hyphen', (token: string) => `session-${token}`],
  ['after a dot', (token: string) => `session.${token}`],
  ['after a word with the start of one', (token: string) => `eyJ-eyJhbGci-${token}`],
])('a JSON web token %s is scrubbed', (_, around) => {
  expect(scrub(around(CREDENTIALS['a JSON web token']))).toMatch(
    /^(session[-.])?\[redacted\]$|^eyJ-\[redacted\]$/,
  );
});

test('a very long text is cut', () => {
  expect(scrub('x'.repeat(20_000)).length).toBeLessThan(8_300);
});

test('the silent logger can log and has child loggers', () => {
  expect(() => silentLogger.child({}).error({ a: 1 }, 'x')).not.toThrow();
});
