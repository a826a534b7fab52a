import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { NOTES } from '../deploy/restore/tenant-histories.ts';
import { projectRoot } from './support/command.ts';

const documents = ['.', '.github', 'charts', 'deploy', 'services', 'test'].flatMap((folder) =>
  readdirSync(join(projectRoot, folder), { recursive: folder !== '.', withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.md'))
    .map((entry) => join(entry.parentPath, entry.name)),
);

test('finds the documents', () => {
  const seen = documents.map((path) => relative(projectRoot, path));
  for (const path of ['README.md', 'deploy/docs/install.md', 'charts/despatch/README.md']) {
    expect(seen).toContain(path);
  }
});

test.each(documents.map((path) => relative(projectRoot, path)))(
  'the relative links of %s resolve',
  (path) => {
    const text = readFileSync(join(projectRoot, path), 'utf8');
    const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
    const own = links.filter((link) => !/^(https?:|mailto:|#)/.test(link));
    const lost = own.filter((link) => !existsSync(join(projectRoot, dirname(path), link.replace(/#.*/, ''))));
    expect(lost).toEqual([]);
  },
);

test.each([
  'README.md',
  'deploy/docs/install.md',
  'deploy/docs/upgrade.md',
  'deploy/docs/uninstall.md',
  'deploy/vault/README.md',
])('the commands of %s name existing files', (path) => {
  const text = readFileSync(join(projectRoot, path), 'utf8');
  const commands = [...text.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = '']) => block).join('\n');
  const files = [...commands.matchAll(/(?:deploy|charts|services)\/[\w./-]*\w/g)].map(([file]) => file);
  expect(files.length).toBeGreaterThan(0);
  expect(files.filter((file) => !existsSync(join(projectRoot, file)))).toEqual([]);
});

test('no command runs a TypeScript program of deploy directly with node, without deploy/run.mjs', () => {
  const named = ['deploy', 'README.md', '.github', 'Tiltfile', 'package.json'].flatMap(filesIn);
  expect(named.length).toBeGreaterThan(50);
  const direct = named.flatMap((path) => {
    const text = readFileSync(path, 'utf8');
    return [...text.matchAll(/node deploy\/[\w./-]+\.ts/g)].map(([command]) => command);
  });
  expect(direct).toEqual([]);
});

test('the runbook of Tenants that are not ready says what to do for each reason', () => {
  const code = filesIn('services/controller/tenant')
    .filter((path) => !path.endsWith('.test.ts'))
    .map((path) => readFileSync(path, 'utf8'))
    .join('\n');
  const given = code.matchAll(/(?:(?:failed|notReady)\(|ok: false,\s*reason: )'(\w+)'/g);
  const reasons = new Set([...given].map(([, reason]) => reason));
  expect(reasons.size).toBeGreaterThan(7);
  const runbook = readFileSync(join(projectRoot, 'deploy/runbooks/DespatchTenantsNotReady.md'), 'utf8');
  expect([...reasons].filter((reason) => !runbook.includes(`\`${reason}\``))).toEqual([]);
});

test('the guide to restores lists every action that a replay of the audit log knows', () => {
  const known = Object.keys(NOTES);
  expect(known.length).toBeGreaterThan(20);
  const guide = readFileSync(join(projectRoot, 'deploy/docs/backup-and-restore.md'), 'utf8');
  const row = /^\| `action` \| (.*) \|$/m.exec(guide)?.[1] ?? '';
  // Groups are separated by semicolons, and only the first action of one states what it is about.
  const listed = row.split('; ').flatMap((group) => {
    const about = /^`(\w+)\./.exec(group)?.[1];
    return [...group.matchAll(/\.(\w+)`/g)].map(([, what]) => `${about}.${what}`);
  });
  expect(known.filter((action) => !listed.includes(action))).toEqual([]);
});

test.each(['Restore', 'A restored etcd'])('%s begins by turning off what undoes changes by hand', (title) => {
  const application = readFileSync(join(projectRoot, 'deploy/examples/argo-cd/application.yaml'), 'utf8');
  expect(application).toContain('selfHeal: true');
  const guide = readFileSync(join(projectRoot, 'deploy/docs/backup-and-restore.md'), 'utf8');
  const [, section = ''] = guide.split(`\n## ${title}\n`);
  const [beginning] = section.split('\n2. ');
  expect(beginning).toContain('turn off automated sync');
});

test('the guarantees of the fault suite name existing test files', () => {
  const text = readFileSync(join(projectRoot, 'test/fault/README.md'), 'utf8');
  const [, table = ''] = /\| guarantee \| here \| elsewhere \|\n([\s\S]*?)\n\n/.exec(text) ?? [];
  const named = table
    .split('\n')
    .flatMap((row) => [...(row.split('|')[3] ?? '').matchAll(/`([\w-]+)`/g)].map(([, name = '']) => name));
  expect(named.length).toBeGreaterThan(40);
  const files = new Set(['services', 'test'].flatMap(filesIn).map((path) => basename(path)));
  expect(named.filter((name) => !files.has(`${name}.test.ts`))).toEqual([]);
});

/** Returns the file, or all files below the folder. */
function filesIn(path: string): string[] {
  const absolute = join(projectRoot, path);
  if (!statSync(absolute).isDirectory()) return [absolute];
  return readdirSync(absolute, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

test('the documented path of a message has at most ten files of fewer than 200 lines each', () => {
  const text = readFileSync(join(projectRoot, 'services/ARCHITECTURE.md'), 'utf8');
  const [, path = ''] = /## The path of a message\n([\s\S]*?)In more detail/.exec(text) ?? [];
  const files = [...path.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
  const linesOf = (file: string) =>
    readFileSync(join(projectRoot, 'services', file), 'utf8').split('\n').length - 1;
  expect(files.length).toBeGreaterThan(5);
  expect(files.length).toBeLessThanOrEqual(10);
  expect(files.filter((file) => linesOf(file) >= 200)).toEqual([]);
});
