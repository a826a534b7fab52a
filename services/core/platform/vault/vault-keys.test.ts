import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { newId, type TenantId } from '#core/domain/storage/ids.ts';
import { Secret } from '#core/domain/storage/secret.ts';
import { createLogger } from '../telemetry/logger.ts';
import { openVaultKeys } from './vault-keys.ts';

const TENANT = newId<TenantId>();
const TOKEN = { data: { ttl: 0, renewable: false, expire_time: null } };

/** Opens the keys of a server that answers every request but that of the login with a 404 and this body. */
async function setup(body: string) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const isLogin = request.url?.endsWith('/lookup-self') === true;
    if (!isLogin) asked.push(`${request.method} ${request.url?.replace(TENANT, 'ID')}`);
    response.writeHead(isLogin ? 200 : 404).end(isLogin ? JSON.stringify(TOKEN) : body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const keys = openVaultKeys({
    config: {
      address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      transitMount: 'transit',
      keyPrefix: 'despatch-',
      auth: { method: 'token', token: new Secret('t') },
    },
    log: createLogger({ level: 'error', component: 'test' }),
  });
  return {
    keys,
    asked,
    async [Symbol.asyncDispose]() {
      await keys[Symbol.asyncDispose]();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

test('a key that Vault does not know is destroyed', async () => {
  await using b = await setup(JSON.stringify({ errors: [] }));
  await b.keys.destroy(TENANT);
  expect(b.asked).toEqual(['GET /v1/transit/keys/despatch-ID']);
});

test.each([
  ['Vault has no such mount', JSON.stringify({ errors: ['no handler for route "transit/keys/x"'] })],
  ['a proxy answers with a page', '<html>404 Not Found</html>'],
  ['a proxy answers with JSON', JSON.stringify({ message: 'no Route matched with those values' })],
])('a key is neither destroyed nor created because %s', async (_, body) => {
  await using b = await setup(body);
  await expect(b.keys.destroy(TENANT)).rejects.toMatchObject({ code: 'unavailable' });
  await expect(b.keys.ensure(TENANT)).rejects.toMatchObject({ code: 'unavailable' });
  expect(b.asked).toEqual(Array.from({ length: 2 }, () => 'GET /v1/transit/keys/despatch-ID'));
});
