/** Roles of members, from most to fewest rights. Each includes the rights of those after it. */
export const ROLES = ['owner', 'admin', 'developer', 'viewer'] as const;
export type Role = (typeof ROLES)[number];

export function includesRole(held: Role, needed: Role): boolean {
  return ROLES.indexOf(held) <= ROLES.indexOf(needed);
}

/** Rights of a service key. */
export const SCOPES = ['messages:send', 'messages:read', 'events:read'] as const;
export type Scope = (typeof SCOPES)[number];
