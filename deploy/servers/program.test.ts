import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { zipOf } from '#test/support/zip-of.ts';
import { locateProgram } from './program.ts';
import { PROGRAMS, type Archive, type Platform, type Program, type Wheel } from './programs.ts';

const GREETER = {
  name: 'greeter',
  version: '2.0.0',
  binVariable: 'GREETER_BIN',
  versionArgs: ['--version'],
  versionPattern: /^greeter \d/,
  source: { module: 'nats-server', package: 'example.com/greeter', tags: 'tiny', duration: '1 minute' },
} satisfies Program;
const script = (output: string): string => `#!/bin/sh\necho "${output}"\n`;
const here: Platform = `${process.platform}-${process.arch}`;

/** A fake compiler: records its flags and writes a program. */
const FAKE_GO = `#!/bin/sh
if [ "$1" = env ]; then echo go1.26.3; exit; fi
echo "$CGO_ENABLED $GOTOOLCHAIN $GOFLAGS $*" >> "$GO_CALLS"
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\necho "greeter 2.0.0"\\n' > "$2"
/bin/chmod 755 "$2"
`;

type Machine = AsyncDisposable & {
  readonly path: string;
  readonly cache: string;
  readonly lines: string[];
  readonly options: { env: NodeJS.ProcessEnv; log: (line: string) => void };
  /** Writes an executable and returns its path. */
  put(path: string, content: string): Promise<string>;
};

/** Creates a machine with an empty PATH folder and cache. */
async function machine(variables: NodeJS.ProcessEnv = {}): Promise<Machine> {
  const path = await mkdtemp(join(tmpdir(), 'despatch-program-'));
  const lines: string[] = [];
  const env = {
    XDG_CACHE_HOME: join(path, 'cache'),
    PATH: join(path, 'bin'),
    GO_CALLS: join(path, 'go-calls'),
    ...variables,
  };
  return {
    path,
    cache: join(path, 'cache', 'despatch', 'bin'),
    lines,
    options: { env, log: (line) => lines.push(line) },
    async put(relative, content) {
      const file = join(path, relative);
      await mkdir(join(file, '..'), { recursive: true });
      await writeFile(file, content, { mode: 0o755 });
      return file;
    },
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}

type Vendor = AsyncDisposable & { readonly archive: Archive };

/** Starts a local server with one archive that contains a greeter of version 1.9.0. */
async function vendor(bin: Machine, overrides: Partial<Archive> = {}): Promise<Vendor> {
  await bin.put('release/greeter-1.9.0/greeter', script('greeter 1.9.0'));
  const file = join(bin.path, 'greeter.tar.gz');
  execFileSync('tar', ['-czf', file, '-C', join(bin.path, 'release'), 'greeter-1.9.0']);
  const bytes = await readFile(file);
  const server = createServer((request, response) => {
    if (/^\/releases\/v1\.9\.0\/greeter-\w+-\w+\.tar\.gz$/.test(request.url ?? '')) response.end(bytes);
    else response.writeHead(404).end('no such release');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const archive: Archive = {
    version: '1.9.0',
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/releases`,
    kind: 'tar.gz',
    path: (target) => `v1.9.0/greeter-${target}.tar.gz`,
    member: () => 'greeter-1.9.0/greeter',
    sha256: { [here]: createHash('sha256').update(bytes).digest('hex') },
    ...overrides,
  };
  return {
    archive,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const WHEEL_BYTES = zipOf([
  { name: 'greeter_bin-1.8.0.data/scripts/greeter', content: script('greeter 1.8.0'), method: 8 },
  {
    name: 'greeter_bin-1.8.0.dist-info/METADATA',
    content: 'Metadata-Version: 2.1\nName: greeter-bin\nVersion: 1.8.0\n',
    method: 0,
  },
  {
    name: 'greeter_bin-1.8.0.dist-info/WHEEL',
    content: 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n',
    method: 0,
  },
  { name: 'greeter_bin-1.8.0.dist-info/RECORD', content: '', method: 0 },
]);
const WHEEL: Wheel = {
  package: 'greeter-bin',
  version: '1.8.0',
  member: 'greeter_bin-1.8.0.data/scripts/greeter',
  sha256: { [here]: createHash('sha256').update(WHEEL_BYTES).digest('hex') },
};

/** A fake pip: records the requirements and provides the wheel that `WHEEL` names, if any. */
const FAKE_PIP = `#!/bin/sh
if [ "$1" = --version ]; then echo "pip 23.2.1 from here"; exit; fi
while [ "$1" != --dest ]; do shift; done
if [ -z "$WHEEL" ]; then
  echo "ERROR: No matching distribution found for greeter-bin==1.8.0" >&2; exit 1
fi
/bin/cp "$WHEEL" "$2/greeter_bin-1.8.0-py3-none-any.whl"
/bin/cat "$4" >> "\${GO_CALLS%go-calls}pip-calls"
`;

type LocalServer = AsyncDisposable & { readonly url: string };

/** Accepts connections and sends nothing, like a network that drops packets. */
async function silentServer(): Promise<LocalServer> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => sockets.add(socket.on('error', () => {})));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Starts a package index that contains only the wheel. */
async function packageIndex(): Promise<LocalServer> {
  const file = 'greeter_bin-1.8.0-py3-none-any.whl';
  const server = createServer((request, response) => {
    if (request.url === `/files/${file}`) return response.end(WHEEL_BYTES);
    if (request.url !== '/simple/greeter-bin/') return response.writeHead(404).end();
    return response
      .setHeader('content-type', 'text/html')
      .end(`<!DOCTYPE html><html><body><a href="/files/${file}">${file}</a></body></html>`);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/simple`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function hasPip(): boolean {
  return spawnSync('python3', ['-m', 'pip', '--version']).status === 0;
}

test('the variable takes precedence over the PATH', async () => {
  await using bin = await machine();
  await bin.put('bin/greeter', script('greeter 1.0.0'));
  const named = await bin.put('elsewhere/my-greeter', script('greeter 3.0.0'));
  bin.options.env['GREETER_BIN'] = named;
  expect(await locateProgram(GREETER, bin.options)).toBe(named);
});

test('a variable that names no working program is an error, not a reason to look elsewhere', async () => {
  await using bin = await machine();
  await bin.put('bin/greeter', script('greeter 1.0.0'));
  bin.options.env['GREETER_BIN'] = '/nonexistent/greeter';
  await expect(locateProgram(GREETER, bin.options)).rejects.toThrow(
    'GREETER_BIN=/nonexistent/greeter is not a working greeter',
  );
});

test('the PATH takes precedence over the cache', async () => {
  await using bin = await machine();
  const onPath = await bin.put('bin/greeter', script('greeter 1.0.0'));
  await bin.put('cache/despatch/bin/greeter-2.0.0', script('greeter 2.0.0'));
  expect(await locateProgram(GREETER, bin.options)).toBe(onPath);
});

test('another program of the same name on the PATH is skipped', async () => {
  await using bin = await machine();
  await bin.put('bin/greeter', script('a photo greeter 1.0'));
  const cached = await bin.put('cache/despatch/bin/greeter-2.0.0', script('greeter 2.0.0'));
  expect(await locateProgram(GREETER, bin.options)).toBe(cached);
});

test('the programs of a local test cluster are used before anything is built', async () => {
  await using bin = await machine();
  await bin.put('bin/go', FAKE_GO);
  const ofCluster = await bin.put('cache/bare-cluster/bin/greeter', script('greeter 2.1.0'));
  expect(await locateProgram(GREETER, bin.options)).toBe(ofCluster);
  const named = await bin.put('cluster/greeter', script('greeter 2.2.0'));
  bin.options.env['CLUSTER_BIN'] = join(bin.path, 'cluster');
  expect(await locateProgram(GREETER, bin.options)).toBe(named);
  await bin.put('cluster/greeter', script('a photo greeter 1.0'));
  expect(await locateProgram(GREETER, bin.options)).toBe(join(bin.cache, 'greeter-2.0.0'));
});

test('the linker gets the version flags of a program', async () => {
  await using bin = await machine();
  await bin.put('bin/go', FAKE_GO);
  const source = { ...GREETER.source, ldflags: '-X main.version=2.0.0' };
  await locateProgram({ ...GREETER, source }, bin.options);
  expect(await readFile(join(bin.path, 'go-calls'), 'utf8')).toContain(
    '-ldflags -s -w -X main.version=2.0.0 -o',
  );
});

test('with Go installed, the program is built from the pinned module, once for concurrent callers', async () => {
  await using bin = await machine();
  await bin.put('bin/go', FAKE_GO);
  const found = await Promise.all([1, 2, 3].map(() => locateProgram(GREETER, bin.options)));
  expect(new Set(found)).toEqual(new Set([join(bin.cache, 'greeter-2.0.0')]));
  const calls = (await readFile(join(bin.path, 'go-calls'), 'utf8')).trim().split('\n');
  expect(calls).toEqual([
    expect.stringMatching(
      /^0 local -mod=readonly -buildvcs=false build -tags tiny -trimpath -ldflags -s -w -o /,
    ),
  ]);
  expect(bin.lines.find((line) => line.includes('building'))).toContain('about 1 minute');
  expect(bin.lines.find((line) => line.includes('built in'))).toMatch(/^greeter 2\.0\.0: built in \d+ s$/);
  expect(await readdir(bin.cache)).toEqual(['greeter-2.0.0']);
});

test('a lock of a dead process does not block a build', async () => {
  await using bin = await machine();
  await bin.put('bin/go', FAKE_GO);
  const dead = Number(execFileSync('/bin/sh', ['-c', 'echo $$']).toString());
  await bin.put('cache/despatch/bin/greeter.lock', String(dead));
  expect(await locateProgram(GREETER, bin.options)).toBe(join(bin.cache, 'greeter-2.0.0'));
});

test("the vendor's archive takes precedence over a build if its checksum is the pinned one", async () => {
  await using bin = await machine();
  await bin.put('bin/go', FAKE_GO);
  await using local = await vendor(bin);
  const program = { ...GREETER, archive: local.archive };
  expect(await locateProgram(program, bin.options)).toBe(join(bin.cache, 'greeter-1.9.0'));
  expect(await readdir(bin.cache)).toEqual(['greeter-1.9.0']);
  expect(await locateProgram(program, bin.options)).toBe(join(bin.cache, 'greeter-1.9.0'));
  expect(bin.lines.filter((line) => line.includes('downloading'))).toHaveLength(1);
});

test('an archive with another checksum is refused and leaves no files', async () => {
  await using bin = await machine();
  await using local = await vendor(bin, { sha256: { [here]: '0'.repeat(64) } });
  await expect(locateProgram({ ...GREETER, archive: local.archive }, bin.options)).rejects.toThrow(
    /instead of the pinned 0{64}/,
  );
  expect(await readdir(bin.cache)).toEqual([]);
});

test('a vendor that does not answer times out, and the program is built', async () => {
  await using bin = await machine();
  await bin.put('bin/go', FAKE_GO);
  await using local = await vendor(bin);
  await using silent = await silentServer();
  const program = { ...GREETER, archive: { ...local.archive, baseUrl: silent.url } };
  const started = performance.now();
  expect(await locateProgram(program, bin.options)).toBe(join(bin.cache, 'greeter-2.0.0'));
  // Two seconds plus the HTTP client's coarse clock, far below the client's own timeout of ten seconds.
  expect(performance.now() - started).toBeLessThan(8_000);
  expect(bin.lines).toContainEqual(expect.stringMatching(/downloading it failed: .*connect timeout/i));
  expect(await readdir(bin.cache)).toEqual(['greeter-2.0.0']);
});

test('a wrong archive is replaced by the wheel, and a missing wheel by a build', async () => {
  await using bin = await machine({ WHEEL: '' });
  await bin.put('bin/go', FAKE_GO);
  await bin.put('bin/pip', FAKE_PIP);
  await using local = await vendor(bin, { sha256: { [here]: '0'.repeat(64) } });
  const program: Program = { ...GREETER, archive: local.archive, wheel: WHEEL };
  expect(await locateProgram(program, bin.options)).toBe(join(bin.cache, 'greeter-2.0.0'));
  expect(bin.lines).toEqual([
    expect.stringContaining('greeter 1.9.0: downloading http'),
    expect.stringContaining('instead of the pinned'),
    'greeter 1.8.0: taking it out of the PyPI wheel greeter-bin',
    'greeter 1.8.0: its wheel cannot be had: pip failed: ERROR: No matching distribution found for greeter-bin==1.8.0',
    expect.stringContaining('greeter 2.0.0: building'),
    expect.stringContaining('greeter 2.0.0: built in'),
  ]);

  await using other = await machine({ WHEEL: await bin.put('greeter.whl', '') });
  await writeFile(join(bin.path, 'greeter.whl'), WHEEL_BYTES);
  await other.put('bin/go', FAKE_GO);
  await other.put('bin/pip', FAKE_PIP);
  const path = join(other.cache, 'greeter-1.8.0');
  expect(await locateProgram(program, other.options)).toBe(path);
  expect(await locateProgram(program, other.options)).toBe(path);
  expect(await readdir(other.cache)).toEqual(['greeter-1.8.0']);
  expect(await readFile(join(other.path, 'pip-calls'), 'utf8')).toBe(
    `greeter-bin==1.8.0 --hash=sha256:${WHEEL.sha256[here]}\n`,
  );
});

test.runIf(hasPip())(
  'pip downloads the wheel from the configured index and checks its checksum',
  { timeout: 60_000 },
  async () => {
    await using bin = await machine();
    await using index = await packageIndex();
    await bin.put('bin/pip3', `#!/bin/sh\nPATH="$REAL_PATH" exec python3 -m pip "$@"\n`);
    Object.assign(bin.options.env, {
      REAL_PATH: process.env['PATH'],
      HOME: bin.path,
      PIP_CONFIG_FILE: '/dev/null',
      PIP_INDEX_URL: index.url,
      PIP_REQUIRE_VIRTUALENV: '1',
    });
    const changed: Wheel = { ...WHEEL, sha256: { [here]: '0'.repeat(64) } };
    await expect(locateProgram({ ...GREETER, wheel: changed }, bin.options)).rejects.toThrow(
      /its wheel cannot be had: .*Go is not installed/,
    );
    expect(await readdir(bin.cache)).toEqual([]);
    expect(await locateProgram({ ...GREETER, wheel: WHEEL }, bin.options)).toBe(
      join(bin.cache, 'greeter-1.8.0'),
    );
    expect(await readdir(bin.cache)).toEqual(['greeter-1.8.0']);
  },
);

test('a NATS server that is too old for the services is skipped', () => {
  const { versionPattern } = PROGRAMS['nats-server'];
  const versions = ['v2.9.25', 'v2.10.27', 'v2.11.4', 'v2.12.0', 'v2.15.2', 'v2.20.1'];
  expect(versions.filter((version) => versionPattern.test(`nats-server: ${version}`))).toEqual([
    'v2.12.0',
    'v2.15.2',
    'v2.20.1',
  ]);
});

test('a missing archive is an error with its path and status', async () => {
  await using bin = await machine();
  await using local = await vendor(bin, { path: () => 'v0.0.0/greeter.tar.gz' });
  await expect(locateProgram({ ...GREETER, archive: local.archive }, bin.options)).rejects.toThrow(
    /v0\.0\.0\/greeter\.tar\.gz answered 404/,
  );
});

test('a platform without a pinned checksum gets no archive', async () => {
  await using bin = await machine();
  await using local = await vendor(bin, { sha256: {} });
  await expect(locateProgram({ ...GREETER, archive: local.archive }, bin.options)).rejects.toThrow(
    `no archive is pinned for ${here}`,
  );
});

test('without any source the error states in one line what to install', async () => {
  await using bin = await machine();
  const error = await locateProgram(GREETER, bin.options).catch((cause: unknown) => cause);
  const { message } = error as Error;
  expect(message).not.toContain('\n');
  expect(message).toContain('install Go 1.26');
  expect(message).toContain('GREETER_BIN');
});

const PACKAGED: Program = {
  name: 'greeter',
  version: 'debian',
  binVariable: 'GREETER_BIN',
  versionArgs: ['--version'],
  versionPattern: /^greeter \d/,
  debian: { package: 'greetings', member: 'usr/bin/greeter' },
};

/** A fake apt that has an index only after an update. */
const FAKE_APT = `#!/bin/sh
echo "$*" >> "$APT_CALLS"
case "$1" in
  update) : > "$APT_INDEX" ;;
  download)
    if [ ! -e "$APT_INDEX" ]; then echo "E: Unable to locate package $2" >&2; exit 100; fi
    : > "$2_1_all.deb" ;;
esac
`;
const FAKE_DPKG_DEB = `#!/bin/sh
/bin/mkdir -p "$3/usr/bin"
printf '#!/bin/sh\\necho "greeter 2.4.0"\\n' > "$3/usr/bin/greeter"
`;

async function debian(): Promise<Machine & { readonly calls: () => Promise<string[]> }> {
  const bin = await machine();
  bin.options.env['APT_CALLS'] = join(bin.path, 'apt-calls');
  bin.options.env['APT_INDEX'] = join(bin.path, 'apt-index');
  await bin.put('bin/apt-get', FAKE_APT);
  await bin.put('bin/dpkg-deb', FAKE_DPKG_DEB);
  return {
    ...bin,
    calls: async () => (await readFile(join(bin.path, 'apt-calls'), 'utf8')).trim().split('\n'),
  };
}

test('a packaged program is extracted from its package once, and nothing is installed', async () => {
  await using bin = await debian();
  await writeFile(bin.options.env['APT_INDEX'] ?? '', '');
  const path = join(bin.cache, 'greeter-debian');
  expect(await locateProgram(PACKAGED, bin.options)).toBe(path);
  expect(await locateProgram(PACKAGED, bin.options)).toBe(path);
  expect(await bin.calls()).toEqual(['download greetings']);
  expect(await readdir(bin.cache)).toEqual(['greeter-debian']);
});

test('an unknown package is downloaded after an update of the index', async () => {
  await using bin = await debian();
  await locateProgram(PACKAGED, bin.options);
  expect(await bin.calls()).toEqual(['download greetings', 'update', 'download greetings']);
});

test('a packaged program that cannot be downloaded is an error that states what to install', async () => {
  await using bin = await machine();
  await expect(locateProgram(PACKAGED, bin.options)).rejects.toThrow(
    /^greeter not found: put it on the PATH, for example from the package greetings, or name it in GREETER_BIN \(/,
  );
  expect(await readdir(bin.cache)).toEqual([]);
});
