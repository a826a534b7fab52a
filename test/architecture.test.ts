import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from './support/command.ts';
import { findViolations, RULE_NAMES, strayTopLevelEntries } from './analysis/architecture-rules.ts';
import { moduleFacts, type SourceFile } from './analysis/module-facts.ts';

const paths = ['deploy', 'services', 'test'].flatMap((folder) =>
  readdirSync(join(projectRoot, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(projectRoot.length).split('\\').join('/')),
);
const files = paths
  // Programs of generated clients are compiled beside the client, which this checkout does not contain.
  .filter((path) => path.endsWith('.ts') && !path.startsWith('test/clients/programs/'))
  .map((path) => ({ path, text: readFileSync(join(projectRoot, path), 'utf8') }));

test('the code follows the architecture rules', () => {
  expect(findViolations(files, paths)).toEqual([]);
});

test('the root of the repository has only the allowed entries', () => {
  expect(strayTopLevelEntries(readdirSync(projectRoot))).toEqual([]);
  expect(strayTopLevelEntries(['.github', 'services', 'scripts', 'docs.md'])).toEqual(['scripts', 'docs.md']);
});

/** Files that each break one rule, with the rule that must detect it. */
const PLANTED: readonly (readonly [rule: string, path: string, text: string])[] = [
  ['every file has a room', 'services/billing/x.ts', ''],
  [
    'a room imports only the rooms below it',
    'services/core/domain/x.ts',
    `import { a } from '#core/store/y.ts';`,
  ],
  [
    'a room imports only the rooms below it',
    'services/core/domain/x.ts',
    `import type { A } from '#core/platform/y.ts';`,
  ],
  [
    'a room imports only the rooms below it',
    'services/core/platform/x.ts',
    `import type { A } from '../store/y.ts';`,
  ],
  [
    'a room imports only the rooms below it',
    'services/core/store/x.ts',
    `type A = import('#providers/provider.ts').A;`,
  ],
  [
    'a room imports only the rooms below it',
    'services/providers/acme/x.ts',
    `import { a } from '#core/platform/y.ts';`,
  ],
  ['a room imports only the rooms below it', 'services/api/x.ts', `import { a } from '../worker/y.ts';`],
  [
    'a room imports only the rooms below it',
    'services/worker/x.ts',
    `const a = await import('../migrate/y.ts');`,
  ],
  [
    'a room imports only the rooms below it',
    'services/controller/x.ts',
    `import type { A } from '../api/y.ts';`,
  ],
  [
    'a room imports only the rooms below it',
    'services/migrate/x.ts',
    `import { a } from '#providers/registry.ts';`,
  ],
  [
    'store knows Postgres and no other vendor',
    'services/core/store/x.ts',
    `import { a } from '#core/platform/nats/nats.ts';`,
  ],
  ['a provider is an island', 'services/providers/acme/x.ts', `import { a } from '../other/outcomes.ts';`],
  ['a provider is an island', 'services/providers/acme/x.ts', `import { a } from '../registry.ts';`],
  ['a provider is an island', 'services/providers/context.ts', `import a from './acme/provider.ts';`],
  ['a provider is an island', 'services/worker/x.ts', `import a from '#providers/acme/provider.ts';`],
  ['production never imports test code', 'services/api/x.ts', `import { a } from '#test/support/seed.ts';`],
  [
    'production never imports test code',
    'services/worker/x.ts',
    `import { a } from '../../deploy/servers/nats.ts';`,
  ],
  [
    'production never imports test code',
    'services/providers/acme/provider.ts',
    `import { a } from './stand-in.ts';`,
  ],
  ['production never imports test code', 'services/core/domain/x.ts', `import { a } from './y.test.ts';`],
  [
    'connections are opened in main.ts',
    'services/api/x.ts',
    `import { openNats } from '#core/platform/nats/nats.ts';`,
  ],
  [
    'a vendor is imported where its adapter is',
    'services/core/store/x.ts',
    `import type { Sql } from 'postgres';`,
  ],
  [
    'a vendor is imported where its adapter is',
    'services/worker/x.ts',
    `import { connect } from '@nats-io/transport-node';`,
  ],
  ['a vendor is imported where its adapter is', 'services/api/x.ts', `import vault from 'node-vault';`],
  [
    'a vendor is imported where its adapter is',
    'services/api/x.ts',
    `import { Counter } from 'prom-client';`,
  ],
  [
    'a vendor is imported where its adapter is',
    'services/worker/x.ts',
    `import { trace } from '@opentelemetry/api';`,
  ],
  ['a vendor is imported where its adapter is', 'services/core/platform/x.ts', `import pino from 'pino';`],
  [
    'a vendor is imported where its adapter is',
    'services/providers/acme/x.ts',
    `import { request } from 'undici';`,
  ],
  [
    'a vendor is imported where its adapter is',
    'services/controller/kube/kube-exchange.ts',
    `import { Agent } from 'undici';`,
  ],
  [
    'a vendor is imported where its adapter is',
    'services/worker/x.ts',
    `import mail from 'nodemailer/lib/mail-composer';`,
  ],
  ['a vendor is imported where its adapter is', 'services/worker/x.ts', `import { jwtVerify } from 'jose';`],
  ['a vendor is imported where its adapter is', 'services/worker/x.ts', `import { fastify } from 'fastify';`],
  ['a vendor is imported where its adapter is', 'services/api/x.ts', `import ip from 'ipaddr.js';`],
  [
    'a vendor is imported where its adapter is',
    'services/worker/x.ts',
    `import { KubeConfig } from '@kubernetes/client-node';`,
  ],
  [
    'a vendor is imported where its adapter is',
    'services/core/domain/x.ts',
    `import { chunk } from 'lodash/fp';`,
  ],
  ['the domain does no I/O', 'services/core/domain/x.ts', `import { readFileSync } from 'node:fs';`],
  [
    'a provider is given its connections',
    'services/providers/acme/x.ts',
    `import { request } from 'node:https';`,
  ],
  ['a builtin is named with its prefix', 'services/core/platform/x.ts', `import { readFileSync } from 'fs';`],
  ['process.env is read in main.ts', 'services/api/x.ts', `export const a = process.env['A'];`],
  ['process.env is read in main.ts', 'services/core/platform/x.ts', `const { env } = process;`],
  ['process.env is read in main.ts', 'services/worker/x.ts', `import { env } from 'node:process';`],
  ['process.exit is for a leader that lost its lease', 'services/worker/main.ts', `process.exit(1);`],
  [
    'process.exit is for a leader that lost its lease',
    'services/controller/runtime/x.ts',
    `import { exit } from 'node:process';`,
  ],
  [
    'what production imports can be read',
    'services/api/x.ts',
    'const a = await import(`../worker/${name}`);',
  ],
  ['no barrels', 'services/worker/x.ts', `export * from './y.ts';`],
  ['no barrels', 'services/worker/x.ts', `export { type A } from './y.ts';`],
  ['no barrels', 'services/worker/index.ts', `export const a = 1;`],
  ['default exports are for providers', 'services/api/x.ts', `export default function a() {}`],
  ['every import finds its file', 'services/api/x.ts', `import { a } from './y.ts'; import './gone.ts';`],
  ['files have speaking kebab-case names', 'services/api/sendMessage.ts', ''],
  ['folders are named after what they hold', 'services/api/utils/x.ts', ''],
];

test.each(PLANTED)('%s: rejects %s with the text %s', (rule, path, text) => {
  expect(broken([{ path, text }])).toContain(rule);
});

test('no import cycles: rejects a cycle of three modules, but not one with a type import', () => {
  const ring = (last: string): SourceFile[] => [
    { path: 'services/api/a.ts', text: `import { b } from './b.ts';` },
    { path: 'services/api/b.ts', text: `import { c } from './c.ts';` },
    { path: 'services/api/c.ts', text: last },
  ];
  expect(broken(ring(`import { a } from './a.ts';`))).toEqual(['no import cycles']);
  expect(broken(ring(`import type { A } from './a.ts';`))).toEqual([]);
});

test.each(['provider.ts', 'provider.test.ts', 'stand-in.ts'])(
  'a provider folder is complete: rejects a folder without %s',
  (name) => {
    const folder = ['provider.ts', 'provider.test.ts', 'stand-in.ts', 'outcomes.ts'].map(
      (one) => `services/providers/acme/${one}`,
    );
    const brokenBy = (present: readonly string[]) => findViolations([], present).map(({ rule }) => rule);
    expect(brokenBy(folder)).toEqual([]);
    expect(brokenBy(folder.filter((path) => !path.endsWith(`/${name}`)))).toEqual([
      'a provider folder is complete',
    ]);
  },
);

test('every rule has a test that violates it', () => {
  const shown = new Set([
    ...PLANTED.map(([rule]) => rule),
    'no import cycles',
    'a provider folder is complete',
  ]);
  expect(RULE_NAMES.filter((name) => !shown.has(name))).toEqual([]);
});

test.each([
  [
    'a main that reads its environment',
    'services/api/main.ts',
    `import { openNats } from '#core/platform/nats/nats.ts'; load(process.env);`,
  ],
  [
    'a test that imports another service and a vendor package',
    'services/api/x.test.ts',
    `import { a } from '../worker/y.ts'; import postgres from 'postgres';`,
  ],
  [
    'a provider that imports only zod and the provider interface',
    'services/providers/acme/provider.ts',
    `import { z } from 'zod'; import { a } from '../provider.ts'; export default a(z);`,
  ],
  [
    'process.env and import in a comment or a string',
    'services/worker/x.ts',
    `// process.env, process.exit\nexport const a = "import('../api/x.ts')";`,
  ],
])('%s violates no rule', (_what, path, text) => {
  expect(broken([{ path, text }])).toEqual([]);
});

test('a file that does not parse is an error', () => {
  expect(() => moduleFacts({ path: 'services/api/x.ts', text: 'import {' })).toThrow('services/api/x.ts');
});

/** Returns the rules that these files break, as if every file that they import existed. */
function broken(planted: readonly SourceFile[]): string[] {
  const targets = planted.flatMap((file) =>
    moduleFacts(file)
      .imports.filter(({ isOwn }) => isOwn)
      .map(({ target }) => target),
  );
  const present = [...planted.map(({ path }) => path), ...targets.filter((path) => !path.includes('gone'))];
  const complete = present.flatMap((path) => {
    const folder = /^services\/providers\/[^/]+(?=\/)/.exec(path)?.[0];
    return folder === undefined
      ? [path]
      : [path, ...['provider.ts', 'provider.test.ts', 'stand-in.ts'].map((name) => `${folder}/${name}`)];
  });
  return [...new Set(findViolations(planted, complete).map(({ rule }) => rule))];
}

test('finds the files of the project', () => {
  const seen = files.map(({ path }) => path);
  for (const path of [
    'services/core/domain/message/message-state.ts',
    'deploy/servers/nats.ts',
    'test/architecture.test.ts',
  ]) {
    expect(seen).toContain(path);
  }
});
