import { expect, test } from 'vitest';
import type { ApiAnswer, ApiClient } from './api-client.ts';
import { ensureTenant } from './tenants.ts';

/** An API that gives every call the same answer. */
function apiWith(answer: ApiAnswer): ApiClient {
  return {
    ask: async () => answer,
    call: async () => {
      if (answer.status >= 300) throw new Error(`answered ${answer.status}`);
      return answer.body as never;
    },
  };
}

const wanted = { slug: 'acme', name: 'Acme', ownerToken: 'owner', accounts: [] };
const saved = { id: 'a', slug: 'acme', serviceKey: 'live', testKey: 'test' };

test.each<[what: string, answer: ApiAnswer]>([
  ['deleted', { status: 404, body: { message: 'Resource not found' } }],
  ['being deleted', { status: 200, body: { status: 'deleting' } }],
])('a kept tenant that was %s is reported with the option that helps', async (_, answer) => {
  await expect(ensureTenant(apiWith(answer), wanted, saved, 'platform')).rejects.toThrow(
    'the tenant acme of an earlier start was deleted; start with --fresh',
  );
});
