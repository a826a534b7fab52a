import { expect, test } from 'vitest';
import { bindingText, accountSecretBinding } from './binding.ts';
import type { TenantId } from './ids.ts';

const TENANT = '6f1a0d4e-5c1b-4d11-9d3c-2f60f2f0a001' as TenantId;

test('a binding names the tenant, the row and the purpose', () => {
  expect(bindingText(accountSecretBinding(TENANT, 'a1'))).toBe(`despatch:v1|${TENANT}|a1|provider-secret`);
});

test.each(['', 'a|b', '|'])('the part %o is refused, so that no two bindings share a text', (part) => {
  expect(() => bindingText({ tenantId: TENANT, subject: part, purpose: 'p' })).toThrow(RangeError);
  expect(() => bindingText({ tenantId: TENANT, subject: 's', purpose: part })).toThrow(RangeError);
});
