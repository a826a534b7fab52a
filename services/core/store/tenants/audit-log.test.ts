import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { AUDIT_ACTIONS } from '#core/domain/tenant/audit-action.ts';

const FUNCTIONS = fileURLToPath(new URL('../functions', import.meta.url));

test('the functions of the database write known actions to the audit log', () => {
  const writes = readdirSync(FUNCTIONS)
    .map((file) => readFileSync(`${FUNCTIONS}/${file}`, 'utf8'))
    .flatMap((sql) => [...sql.matchAll(/insert into audit_log[^;]*;/g)].map(([text]) => text));
  const written = writes.flatMap((text) =>
    [...text.matchAll(/'([a-z_]+\.[a-z_]+)'/g)].map(([, action]) => action),
  );
  expect(AUDIT_ACTIONS).toEqual(expect.arrayContaining(written));
  expect(written).toContain('member.joined');
});
