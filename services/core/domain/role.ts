/** A member's roles, from the one who may everything down. Each includes those after it. */
export const ROLES = ['owner', 'admin', 'developer', 'viewer'] as const;
export type Role = (typeof ROLES)[number];

export function includesRole(held: Role, needed: Role): boolean {
  return ROLES.indexOf(held) <= ROLES.indexOf(needed);
}

/** What a service key may do. */
export const SCOPES = ['messages:send', 'messages:read', 'events:read'] as const;
export type Scope = (typeof SCOPES)[number];
