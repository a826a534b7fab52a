import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';

/** A cluster with everything but a Vault, whose state is in files. As a real one, `vault status` fails of a sealed Vault. */
const KUBECTL = `
case "$*" in
  *'vault status'*)
    if [ -s absent ]; then
      tail -n +2 absent > absent.new && mv absent.new absent
      echo 'pods "vault-0" not found' >&2
      exit 1
    fi
    echo '{"initialized": '"$(cat initialized)"'}'
    exit 2 ;;
  *'vault operator init'*)
    if [ -e init-fails ]; then exit 1; fi
    echo true > initialized
    echo '{"unseal_keys_b64": ["unseal-1"], "root_token": "root-1"}' ;;
  *'vault operator unseal'*) echo "$*" > unsealed ;;
  *port-forward*) [ -e port-taken ] || exec /bin/sleep 60 ;;
  *' -f -') cat > /dev/null ;;
esac`;
const JQ = `
case $2 in
  .initialized) sed -n 's/.*"initialized": \\([a-z]*\\).*/\\1/p' ;;
  .root_token) sed -n 's/.*"root_token": "\\([^"]*\\)".*/\\1/p' "$3" ;;
  *) sed -n 's/.*"unseal_keys_b64": \\["\\([^"]*\\)".*/\\1/p' "$3" ;;
esac`;
const PROGRAMS = {
  kubectl: KUBECTL,
  helm: '',
  curl: '[ ! -e port-taken ]',
  sleep: '',
  node: 'echo "$VAULT_TOKEN $*" > set-up',
  jq: JQ,
};

const KEYS = '{"unseal_keys_b64": ["unseal-0"], "root_token": "root-0"}';

type Project = AsyncDisposable & {
  write(file: string, content: string): Promise<void>;
  /** Returns undefined for a file that does not exist. */
  read(file: string): Promise<string | undefined>;
  run(): Promise<{ code: number | null; stderr: string }>;
};

/** Returns a project with the script alone, in which the programs that it calls are the ones above. */
async function setup(files: Readonly<Record<string, string>>): Promise<Project> {
  const path = await mkdtemp(join(tmpdir(), 'despatch-backends-'));
  const bin = join(path, 'bin');
  await mkdir(bin);
  for (const [name, body] of Object.entries(PROGRAMS))
    await writeFile(join(bin, name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  await cp(new URL('backends.sh', import.meta.url), join(path, 'deploy/examples/backends.sh'));
  const write: Project['write'] = (file, content) => writeFile(join(path, file), content);
  for (const [file, content] of Object.entries(files)) await write(file, content);
  return {
    write,
    read: (file) => readFile(join(path, file), 'utf8').catch(() => undefined),
    async run() {
      const child = spawn('sh', [join(path, 'deploy/examples/backends.sh')], {
        env: { PATH: `${bin}:/usr/bin:/bin` },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      const [[code], stderr] = await Promise.all([once(child, 'close'), text(child.stderr)]);
      return { code: code as number | null, stderr };
    },
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}

test('a Vault whose pod appears late is initialised, unsealed and set up, twice with the same keys', async () => {
  await using project = await setup({ initialized: 'false', absent: '1\n2\n3\n' });
  for (const run of ['first', 'second']) {
    expect(await project.run(), `${run} run`).toEqual({ code: 0, stderr: '' });
    expect(await project.read('unsealed')).toContain('unseal-1');
    expect(await project.read('set-up')).toContain('root-1 deploy/run.mjs deploy/vault/setup-kubernetes.ts');
  }
});

test('a failed initialisation leaves no key file, and the next run replaces an empty one', async () => {
  await using project = await setup({ initialized: 'false', 'init-fails': '' });
  expect((await project.run()).code).toBe(1);
  expect(await project.read('vault-keys.json')).toBeUndefined();
  await using again = await setup({ initialized: 'false', 'vault-keys.json': '' });
  expect(await again.run()).toEqual({ code: 0, stderr: '' });
  expect(await again.read('vault-keys.json')).toContain('root-1');
});

test.each([
  ['keys of another Vault', { initialized: 'false', 'vault-keys.json': KEYS }, 'is of another one'],
  ['missing keys', { initialized: 'true' }, 'its keys are not here'],
  ['a pod that never comes', { initialized: 'false', absent: '\n'.repeat(400) }, 'Vault does not answer'],
  [
    'a port that is taken',
    { initialized: 'true', 'vault-keys.json': KEYS, 'port-taken': '' },
    'is port 8200 of this machine taken?',
  ],
])(
  '%s: the script ends with an explanation, and the keys stay unchanged',
  { timeout: 30_000 },
  async (_name, files, fault) => {
    await using project = await setup(files);
    const { code, stderr } = await project.run();
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(fault) });
    expect(await project.read('vault-keys.json')).toBe(
      (files as Readonly<Record<string, string>>)['vault-keys.json'],
    );
    expect(await project.read('set-up')).toBeUndefined();
  },
);
