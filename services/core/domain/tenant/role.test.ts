import { expect, test } from 'vitest';
import { includesRole, ROLES } from './role.ts';

test.each([
  ['owner', ['owner', 'admin', 'developer', 'viewer']],
  ['admin', ['admin', 'developer', 'viewer']],
  ['developer', ['developer', 'viewer']],
  ['viewer', ['viewer']],
] as const)('a member who is %s has the rights of the roles %j', (held, included) => {
  expect(ROLES.filter((needed) => includesRole(held, needed))).toEqual(included);
});
