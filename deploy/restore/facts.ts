import type { AuditFacts } from '#core/domain/tenant/audit-entry.ts';
import { ROLES, type Role } from '#core/domain/tenant/role.ts';

type Fact = AuditFacts[string] | undefined;

export function textOf(fact: Fact): string | null {
  return typeof fact === 'string' ? fact : null;
}

export function textsOf(fact: Fact): readonly string[] {
  return Array.isArray(fact) ? fact : [];
}

export function roleOf(fact: Fact): Role | null {
  return ROLES.find((role) => role === fact) ?? null;
}
