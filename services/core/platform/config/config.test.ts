import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import { ConfigurationError, defineEnvGroup, parseEnvironment } from './config.ts';
import { url } from './url-variables.ts';
import { flag, list, oneOf, optional, ratio, secretText, text, whole } from './variables.ts';
import { configTable } from './config-table.ts';
import { keyringEnv, natsEnv, observabilityEnv, postgresEnv, runtimeEnv } from './environment.ts';

const CANARY = 'canary-5d1f';
const folders: string[] = [];

function fileWith(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'despatch-config-'));
  folders.push(folder);
  const file = join(folder, 'value');
  writeFileSync(file, content);
  return file;
}

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

const sample = defineEnvGroup({
  title: 'Sample',
  shape: {
    PORT: whole('Port.', { min: 1, max: 65_535, default: 8080 }),
    TOKEN: secretText('Token.', { lengthMin: 8 }),
    BASE_URL: optional(url('Base.', ['https:'])),
    COLOURS: list('Colours.', { item: (value) => /^[a-z]+$/.test(value) }),
    VERBOSE: flag('Verbose.', false),
    SHARE: ratio('Share.', 0.5),
    MODE: oneOf('Mode.', ['fast', 'safe'], 'safe'),
  },
  build: (e) => ({ ...e, nested: { colours: e.COLOURS } }),
});

function faultsOf(
  environment: Parameters<typeof parseEnvironment>[0],
  env: NodeJS.ProcessEnv,
): Record<string, string> {
  try {
    parseEnvironment(environment, env);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    for (const { variable, rule } of error.faults) expect(error.message).toContain(`${variable}: ${rule}`);
    return Object.fromEntries(error.faults.map(({ variable, rule }) => [variable, rule]));
  }
  return {};
}

test('reports the faults of all groups together', () => {
  const faults = faultsOf(
    { sample, postgres: postgresEnv, nats: natsEnv },
    {
      PORT: '70000',
      VERBOSE: 'yes',
      SHARE: '2',
      MODE: 'slow',
      COLOURS: 'red,4',
      BASE_URL: 'http://x',
      DATABASE_POOL_MAX: '1e3',
    },
  );
  expect(faults).toEqual({
    PORT: 'must be a whole number from 1 to 65535',
    TOKEN: 'is required',
    BASE_URL: 'must be a URL that begins with https://, without credentials',
    COLOURS: 'has an item of the wrong form',
    VERBOSE: 'must be true or false',
    SHARE: 'must be a number from 0 to 1',
    MODE: 'must be one of fast, safe',
    DATABASE_URL: 'is required',
    DATABASE_POOL_MAX: 'must be a whole number from 1 to 200',
    NATS_URL: 'is required',
  });
});

test.each([
  ['postgres://u:50%off@h/db', /only before two hexadecimal digits/],
  ['postgres://u:p@h/db?statement_timeout=0', /no parameters but sslmode/],
  ['postgres://u:p@h/db?sslmode=require&channel_binding=require', /no parameters but sslmode/],
  ['https://u:p@h/db', /begins with postgres/],
  ['postgres://u:50%25off@h:5432/db?sslmode=require&target_session_attrs=read-write', undefined],
  ['postgresql://u:p%40@h1:5432,h2:5433/db?target_session_attrs=read-write', undefined],
  ['postgresql://u:p@h1,h2:5433/db', undefined],
  ['postgresql://u:p@[::1]:5432,[2001:db8::1]/db', undefined],
  ['postgresql://u:p@h1:5432,h2:x/db', /begins with postgres/],
  ['postgresql://u:p@h1:5432,/db', /begins with postgres/],
  // An ambiguous pattern needs years for it.
  [`postgresql://u:p@h${',[1.2]'.repeat(60)}:x`, /begins with postgres/],
])('the connection string %s is refused as %s', (url, rule) => {
  const parse = () => parseEnvironment({ postgres: postgresEnv }, { DATABASE_URL: url });
  if (rule === undefined) expect(parse().postgres.url.reveal()).toBe(url);
  else expect(parse).toThrow(rule);
});

test('values appear neither in errors nor in the printed configuration', () => {
  const env = {
    PORT: CANARY,
    TOKEN: CANARY.slice(0, 7),
    DATABASE_URL: `mysql://u:${CANARY}@host/db`,
    NATS_URL: `nats://u:${CANARY}@h`,
  };
  let message = '';
  try {
    parseEnvironment({ sample, postgres: postgresEnv, nats: natsEnv }, env);
  } catch (error) {
    message = inspect(error, { depth: 9 });
  }
  expect(message).toContain('DATABASE_URL');
  expect(message).not.toContain('canary');
  const config = parseEnvironment({ sample }, { TOKEN: CANARY });
  expect(config.sample.TOKEN.reveal()).toBe(CANARY);
  expect(inspect(config, { depth: 9 }) + JSON.stringify(config)).not.toContain('canary');
});

test('an empty variable counts as absent and takes the default', () => {
  const { sample: config } = parseEnvironment(
    { sample },
    { TOKEN: CANARY, PORT: '', COLOURS: ' red , blue ', BASE_URL: 'https://x.example/' },
  );
  expect(config).toMatchObject({
    PORT: 8080,
    COLOURS: ['red', 'blue'],
    BASE_URL: 'https://x.example',
    VERBOSE: false,
    SHARE: 0.5,
  });
});

test('the result is frozen all the way down', () => {
  const config = parseEnvironment({ sample }, { TOKEN: CANARY });
  expect(Object.isFrozen(config)).toBe(true);
  expect(Object.isFrozen(config.sample.nested.colours)).toBe(true);
});

test('a secret is read from the file that its _FILE variable names, without the newline at its end', () => {
  const { sample: config } = parseEnvironment({ sample }, { TOKEN_FILE: fileWith(`${CANARY}\n`) });
  expect(config.TOKEN.reveal()).toBe(CANARY);
});

test.each([
  [
    'unreadable',
    () => ({ TOKEN_FILE: '/nowhere/token' }),
    'TOKEN_FILE',
    'names a file that cannot be read (ENOENT)',
  ],
  ['empty', () => ({ TOKEN_FILE: fileWith(' \n') }), 'TOKEN_FILE', 'names an empty file'],
  [
    'beside a value',
    () => ({ TOKEN_FILE: fileWith(CANARY), TOKEN: CANARY }),
    'TOKEN',
    'is set together with TOKEN_FILE; set one of them',
  ],
])('a secret file that is %s is a fault', (_, env, variable, rule) => {
  expect(faultsOf({ sample }, env())).toHaveProperty(variable, rule);
});

test('production refuses the local keyring and development accepts it', () => {
  const env = { KEYRING: 'local', LOCAL_KEYRING_DIR: '/var/keys' };
  expect(faultsOf({ keyring: keyringEnv }, env)).toEqual({
    KEYRING: '`local` is refused in production; use vault, or set DESPATCH_ENV=development',
  });
  const config = parseEnvironment(
    { runtime: runtimeEnv, keyring: keyringEnv },
    { ...env, DESPATCH_ENV: 'development' },
  );
  expect(config.keyring).toEqual({ kind: 'local', dir: '/var/keys' });
  expect(config.runtime.mode).toBe('development');
});

test.each([
  [{}, 'VAULT_ADDR'],
  [{ VAULT_ADDR: 'https://v' }, 'VAULT_ROLE'],
  [{ VAULT_ADDR: 'https://v', VAULT_AUTH_METHOD: 'token' }, 'VAULT_TOKEN'],
  [{ VAULT_ADDR: 'https://v', VAULT_AUTH_METHOD: 'approle' }, 'VAULT_ROLE_ID'],
  [{ VAULT_ADDR: 'https://v', VAULT_AUTH_METHOD: 'approle', VAULT_ROLE_ID: 'r' }, 'VAULT_SECRET_ID'],
])('a Vault login with a missing variable is a fault: %o', (env, variable) => {
  expect(Object.keys(faultsOf({ keyring: keyringEnv }, env))).toContain(variable);
});

test('the path of a rotating Vault secret is kept, so that the file can be read again', () => {
  const file = fileWith(CANARY);
  const env = {
    VAULT_ADDR: 'https://v',
    VAULT_AUTH_METHOD: 'approle',
    VAULT_ROLE_ID: 'r',
    VAULT_SECRET_ID_FILE: file,
  };
  const { keyring } = parseEnvironment({ keyring: keyringEnv }, env);
  expect(keyring).toMatchObject({ kind: 'vault', auth: { method: 'approle', secretIdFile: file } });
});

test.each([
  [{ NATS_USER: 'u' }, 'NATS_USER'],
  [{ NATS_CERT_FILE: '/c' }, 'NATS_CERT_FILE'],
  [{ NATS_CREDS_FILE: '/c', NATS_USER: 'u', NATS_PASSWORD: 'p' }, 'NATS_CREDS_FILE'],
  [{ NATS_PREFIX: 'a.b' }, 'NATS_PREFIX'],
])('NATS variables that contradict each other are a fault: %o', (env, variable) => {
  expect(Object.keys(faultsOf({ nats: natsEnv }, { NATS_URL: 'nats://h', ...env }))).toEqual([variable]);
});

test('the reference table names each variable once, with its readers, type and default', () => {
  const shared = { postgres: postgresEnv, observability: observabilityEnv };
  const table = configTable([
    { deployment: 'api', environment: { ...shared, runtime: runtimeEnv, keyring: keyringEnv } },
    { deployment: 'worker', environment: shared },
  ]);
  expect(table).toContain('| `DATABASE_POOL_MAX` | api, worker | whole number, 1 to 200 | `10` |');
  expect(table).toContain('| `DATABASE_URL` † | api, worker | secret URL | **required** |');
  expect(table).toContain('| `VAULT_TOKEN` † | api | secret | – |');
  expect(table.match(/`DESPATCH_ENV` \|/g)).toHaveLength(1);
  for (const line of table.split('\n').filter((one) => one.startsWith('|'))) {
    expect(line.split(/(?<!\\)\|/)).toHaveLength(7);
  }
});

test('a variable that deployments describe differently has the description of each', () => {
  const described = (description: string) => ({
    name: defineEnvGroup({ title: 'Name', shape: { NAME: text(description) }, build: (e) => e.NAME }),
  });
  const table = configTable([
    { deployment: 'api', environment: described('First.') },
    { deployment: 'controller', environment: described('Second.') },
    { deployment: 'worker', environment: described('First.') },
  ]);
  expect(table).toContain(
    '| `NAME` | api, controller, worker | text | **required** | api, worker: First. controller: Second. |',
  );
});

test('every variable of the shared groups has a description', () => {
  const groups = [runtimeEnv, postgresEnv, natsEnv, keyringEnv, observabilityEnv];
  const table = configTable([{ deployment: 'api', environment: Object.fromEntries(groups.entries()) }]);
  expect(table.split('\n').filter((line) => /\|\s+\|$/.test(line))).toEqual([]);
});
