import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from '@nats-io/transport-node';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { secret } from '#core/domain/storage/secret.ts';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { openNats } from '#core/platform/nats/nats.ts';
import { projectRoot } from '#test/support/command.ts';
import { natsPermissions, NATS_SERVICES } from '../../../deploy/nats/accounts.ts';
import { permissionsConf, permissionsValues } from '../../../deploy/nats/write-permissions.ts';
import { startNats, type NatsServer } from '../../../deploy/servers/nats.ts';

const example = parse(await readFile(join(projectRoot, 'deploy/examples/nats/values.yaml'), 'utf8')) as {
  config: { merge: object };
  container: object;
};
const PASSWORD = 'password-of-the-test';

test('the shipped permissions.conf equals the generated permissions', async () => {
  const shipped = await readFile(join(projectRoot, 'deploy/nats/permissions.conf'), 'utf8');
  const statements = shipped.replaceAll(/^\s*#.*$/gm, '');
  const lists = [...statements.matchAll(/allow: \[([^\]]*)\]/g)].map(([, list = '']) =>
    [...list.matchAll(/"([^"]+)"/g)].map(([, subject]) => subject),
  );
  const users = [...statements.matchAll(/user: (\w+)\s+password: \$(\w+)/g)].map(([, user, variable]) => [
    user,
    variable,
  ]);
  const written = natsPermissions();
  expect(users).toEqual(
    NATS_SERVICES.map((service) => [written[service].user, written[service].passwordVariable]),
  );
  expect(lists).toEqual(
    NATS_SERVICES.flatMap((service) => [written[service].publish, written[service].subscribe]),
  );
});

test('the example values for the official chart equal the generated values', () => {
  const { config, container } = permissionsValues('despatch', 'despatch-nats') as typeof example;
  expect(example.config.merge).toEqual(config.merge);
  expect(example.container).toEqual(container);
});

test.each([
  ['the permissions generated for another prefix', 'staging', permissionsConf('staging')],
  ['the example for the official chart', 'despatch', asChartWrites(example.config.merge)],
])('with %s, the services can work but not exceed their permissions', async (_what, prefix, config) => {
  await using server = await serverWith(prefix, config);
  const open = (service: (typeof NATS_SERVICES)[number]) => {
    const { user } = natsPermissions(prefix)[service];
    const config = { servers: [server.url], prefix, replicas: 1, user, password: secret(PASSWORD) };
    return openNats({ config, log: silentLogger, name: 'test' });
  };
  await using worker = await open('worker');
  await using api = await open('api');
  await worker.ensureStream();
  const wake = { kind: 'normal', id: 'a', payload: 'a' } as const;
  expect(await api.publishWakes([wake])).toEqual({ failed: [] });
  await expect.poll(async () => (await worker.consumerLag())?.pending).toBe(1);
  expect(await worker.publishWakes([{ ...wake, id: 'b' }])).toEqual({ failed: ['b'] });
  const receipts = { ...wake, kind: 'receipts' } as const;
  expect(await api.publishWakes([{ ...receipts, id: 'c' }])).toEqual({ failed: [] });
  expect(await worker.publishWakes([{ ...receipts, id: 'd' }])).toEqual({ failed: ['d'] });

  const user = `${prefix}_api`;
  const raw = await connect({ servers: server.url, user, pass: PASSWORD, inboxPrefix: `_INBOX_${user}` });
  await expect(raw.request(`$JS.API.STREAM.INFO.${prefix.toUpperCase()}_WAKE`)).rejects.toThrow(
    /Permissions Violation/i,
  );
  await raw.close();
});

/** Writes the configuration as the official chart does: JSON, with the text between the marks unquoted. */
function asChartWrites(merge: object): string {
  return JSON.stringify(merge)
    .replace(/"<< (\$\w+) >>"/g, '$1')
    .slice(1, -1);
}

function serverWith(prefix: string, config: string): Promise<NatsServer> {
  const variables = NATS_SERVICES.map((service) => [
    natsPermissions(prefix)[service].passwordVariable,
    PASSWORD,
  ]);
  return startNats({ config, env: Object.fromEntries(variables) as Record<string, string> });
}
