import { z } from 'zod';
import { ROLES } from '#core/domain/tenant/role.ts';
import { TENANT_STATES } from '#core/domain/tenant/tenant-state.ts';
import { directoryStore } from '#core/store/tenants/directory.ts';
import type { AdminDeps } from './admin-deps.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import type { RouteModule } from '../http/routes/route.ts';

const Me = z
  .object({
    userId: z.uuid(),
    subject: z.string().describe('Subject that the issuer assigns to the user.'),
    email: z.string().nullable(),
    name: z.string().nullable(),
    tenants: z.array(
      z.object({
        id: z.uuid(),
        slug: z.string(),
        name: z.string(),
        role: z.enum(ROLES),
        status: z.enum(TENANT_STATES),
      }),
    ),
    ...warningsField,
  })
  .meta({
    id: 'Me',
    description: 'The signed-in user.',
    examples: [
      {
        userId: '9a7b6c5d-4e3f-4a1b-8c0d-1e2f3a4b5c6d',
        subject: 'auth0|5f7c8ec7c33c6c004bbafe82',
        email: 'ann@example.com',
        name: 'Ann Example',
        tenants: [
          {
            id: '1c9e4b2a-6d5f-4e3c-8b7a-9f0e1d2c3b4a',
            slug: 'acme',
            name: 'Acme',
            role: 'owner',
            status: 'active',
          },
        ],
      },
    ],
  });

export function meRoute({ sql }: Pick<AdminDeps, 'sql'>): RouteModule {
  const directory = directoryStore(sql);
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/me',
    operation: 'getMe',
    summary: 'Show the signed-in user',
    description: 'The user of the token, and the tenants they may act for. Does not require `X-Tenant-Slug`.',
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
