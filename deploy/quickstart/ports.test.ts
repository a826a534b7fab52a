import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { choosePorts, choosePortsOf, USUAL_PORTS } from './ports.ts';

async function stateFolder() {
  const path = await mkdtemp(join(tmpdir(), 'despatch-ports-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

test('free ports differ from each other and from the usual ones, and stay the same between starts', async () => {
  await using folder = await stateFolder();
  const first = await choosePortsOf(folder.path, true);
  expect(new Set(Object.values(first)).size).toBe(Object.keys(USUAL_PORTS).length);
  for (const [name, port] of Object.entries(USUAL_PORTS)) expect(first).not.toMatchObject({ [name]: port });
  expect(await choosePortsOf(folder.path, true)).toEqual(first);
});

test('a port that is in use is replaced, and the others stay', async () => {
  await using folder = await stateFolder();
  const first = await choosePortsOf(folder.path, true);
  const server = createServer().listen(first.api, '127.0.0.1');
  await once(server, 'listening');
  const second = await choosePortsOf(folder.path, true);
  server.close();
  expect(second.api).not.toBe(first.api);
  expect({ ...second, api: first.api }).toEqual(first);
});

test('usual ports of an earlier start are replaced by free ones, and a broken file is ignored', async () => {
  const ports = await choosePorts(true, USUAL_PORTS);
  for (const name of Object.keys(USUAL_PORTS) as (keyof typeof USUAL_PORTS)[]) {
    expect(ports[name]).not.toBe(USUAL_PORTS[name]);
  }
  await using folder = await stateFolder();
  for (const content of ['{"api":', '{"api": "x", "nats": 0}', 'null']) {
    await writeFile(join(folder.path, 'ports.json'), content);
    expect((await choosePortsOf(folder.path, true)).api).toBeGreaterThan(0);
  }
});
