import { z } from 'zod';
import { ROLES } from '#core/domain/role.ts';
import { directoryStore } from '#core/store/directory.ts';
import type { AdminDeps } from '../admin-change.ts';
import { defineRoute, type RouteModule } from '../routes-kit.ts';
import { TENANT_STATUSES } from '../tenant-view.ts';

const Me = z
  .object({
    userId: z.uuid(),
    subject: z.string().describe('The name that the issuer gives the user.'),
    email: z.string().nullable(),
    name: z.string().nullable(),
    tenants: z.array(
      z.object({
        id: z.uuid(),
        slug: z.string(),
        name: z.string(),
        role: z.enum(ROLES),
        status: z.enum(TENANT_STATUSES),
      }),
    ),
  })
  .meta({ id: 'Me' });

export function meRoute({ sql }: Pick<AdminDeps, 'sql'>): RouteModule {
  const directory = directoryStore(sql);
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/me',
    summary: 'Show who is signed in',
    tag: 'Account',
    auth: { kind: 'user' },
    response: Me,
    handler: async ({ caller: { user } }) => {
      const memberships = await directory.memberships(user.id);
      return {
        body: {
          userId: user.id,
          subject: user.subject,
          email: user.email,
          name: user.name,
          tenants: memberships.map(({ tenant: { id, slug, name, status }, role }) => ({
            id,
            slug,
            name,
            role,
            status,
          })),
        },
      };
    },
  });
}
