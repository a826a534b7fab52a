import { z } from 'zod';
import { AppError, orNotFound, validationFailed } from '#core/domain/fault/app-error.ts';
import type { UserId } from '#core/domain/storage/ids.ts';
import { comparableAddress, normalAddress } from '#core/domain/recipient/mailbox.ts';
import { ROLES, type Role } from '#core/domain/tenant/role.ts';
import {
  countMembers,
  findMember,
  findMemberLike,
  inviteMember,
  listMembers,
  removeMember,
  setRole,
  type Member as MemberRecord,
  type MemberPosition,
  type Person,
} from '#core/store/tenants/members.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { assertBelow } from '../changes/assert-below.ts';
import { changeTenant, type Change } from '../changes/change-tenant.ts';
import { insufficientRole } from '../auth/assert-role.ts';
import { scopeOf } from '../changes/change-scope.ts';
import type { AdminDeps } from './admin-deps.ts';
import type { MemberCaller } from '../auth/auth.ts';
import { pageFrom } from '../http/lists/cursor.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { RouteModule } from '../http/routes/route.ts';
import { pageOf, pageQuery } from '../http/lists/page.ts';
import { isLine, text, uuidField } from '../http/input/fields.ts';

const tag = 'Members';
const auth = { kind: 'bearer', role: 'admin' } as const;
const UserParams = z.object({
  userId: uuidField().describe('The `userId` of a member or an invitation.'),
});
const roleField = z
  .enum(ROLES)
  .describe('owner > admin > developer > viewer. Only owners add or remove an owner.');

const Member = z
  .object({
    userId: z.uuid().describe('An invitation has its own id until the first sign-in.'),
    subject: z.string().nullable().describe('Null for an invitation by email that is not accepted yet.'),
    email: z
      .string()
      .nullable()
      .describe(
        'Null for a member added by subject: their address is not shown. An internationalized domain is shown in ASCII.',
      ),
    role: z.enum(ROLES),
    createdAt: z.iso.datetime(),
    ...warningsField,
  })
  .meta({
    id: 'Member',
    description: 'A member of a tenant, or an invitation that is still open.',
    examples: [
      {
        userId: '9a7b6c5d-4e3f-4a1b-8c0d-1e2f3a4b5c6d',
        subject: null,
        email: 'ann@example.com',
        role: 'developer',
        createdAt: '2026-01-15T09:30:00.000Z',
      },
    ],
  });

const AddMember = z
  .object({
    email: z
      .string()
      .max(254, 'Must have at most 254 characters')
      .refine((email) => isLine(email) && normalAddress(email) !== undefined, {
        error: 'Must be an email address',
        params: { rule: 'email' },
      })
      .optional()
      .describe('Exactly one of `email` and `subject` is required.'),
    subject: text(1, 255).optional().describe('Subject that the issuer assigns to the user.'),
    role: roleField,
  })
  .meta({
    id: 'AddMember',
    description: 'The member to add.',
    examples: [{ email: 'ann@example.com', role: 'developer' }],
  });

const ChangeMemberRole = z
  .object({ role: roleField })
  .meta({ id: 'ChangeMemberRole', description: 'A new role.', examples: [{ role: 'admin' }] });

export function memberRoutes(deps: AdminDeps): RouteModule[] {
  return [list(deps), read(deps), invite(deps), changeRole(deps), remove(deps)];
}

function list({ read, cursors }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/members',
    operation: 'listMembers',
    summary: 'List members and open invitations',
    description: 'Newest first.',
    tag,
    auth,
    query: z.object(pageQuery),
    response: pageOf(Member),
    errors: ['invalid_cursor'],
    handler: async ({ caller: { tenant }, query: { limit, cursor }, gone }) => {
      const pages = { list: 'members', of: tenant.id };
      const after = cursors.position<MemberPosition>(pages, cursor);
      const rows = await read(tenant.id, gone(), (tx) =>
        listMembers(tenant.id, tx, { after, most: limit + 1 }),
      );
      return {
        body: pageFrom(
          rows,
          limit,
          ({ member }) => viewMember(member),
          ({ position }) => cursors.next(pages, position),
        ),
      };
    },
  });
}

function read({ sql }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/members/:userId',
    operation: 'getMember',
    summary: 'Show a member',
    description: 'A member or an open invitation.',
    tag,
    auth,
    params: UserParams,
    response: Member,
    handler: async ({ caller: { tenant }, params }) => {
      const member = orNotFound(
        await withTenant(sql, tenant.id, (tx) => findMember(tenant.id, tx, params.userId as UserId)),
      );
      return { body: viewMember(member) };
    },
  });
}

function invite(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'PUT',
    path: '/v1/admin/members',
    operation: 'addMember',
    summary: "Add a member, or change a member's role",
    description:
      'By the subject that the issuer assigns to the user, or by email: that invitation is accepted at the first sign-in with this verified address. If the person is already a member, sets their role.',
    tag,
    auth,
    body: AddMember,
    response: Member,
    errors: ['insufficient_role', 'last_owner', 'plan_limit_reached'],
    handler: async ({ caller, body, request }) => {
      const person = personOf(body);
      const { tenant, user } = caller;
      const { was, member } = await changeTenant(deps, scopeOf(caller, request), async (change) => {
        const known = await findMemberLike(tenant.id, change.tx, user.issuer, person);
        if (known !== undefined) return moveRole(caller, change, known, body.role);
        if (body.role === 'owner') assertOwner(change);
        const { members } = await countMembers(tenant.id, change.tx);
        assertBelow(members, change.tenant.limits.membersMax, 'membersMax');
        const userId = await inviteMember(tenant.id, change.tx, user.issuer, person, body.role);
        const added = await requireMember(caller, change, userId);
        const changes = [{ field: 'role', from: null, to: body.role }];
        await change.audit('member.added', userId, { role: body.role }, { name: nameOf(added), changes });
        return { was: null, member: added };
      });
      // A notice makes every process load what it knows of the tenant again.
      if (member.role !== was) deps.notify('tenant', { tenantId: tenant.id });
      return { body: viewMember(member) };
    },
  });
}

function changeRole(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'PUT',
    path: '/v1/admin/members/:userId',
    operation: 'changeMemberRole',
    summary: "Change a member's role",
    description: 'Only owners add or remove an owner, and the last owner who has signed in keeps the role.',
    tag,
    auth,
    params: UserParams,
    body: ChangeMemberRole,
    response: Member,
    errors: ['insufficient_role', 'last_owner'],
    handler: async ({ caller, params, body, request }) => {
      const { was, member } = await changeTenant(deps, scopeOf(caller, request), async (change) =>
        moveRole(caller, change, await requireMember(caller, change, params.userId as UserId), body.role),
      );
      if (member.role !== was) deps.notify('tenant', { tenantId: caller.tenant.id });
      return { body: viewMember(member) };
    },
  });
}

function remove(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'DELETE',
    path: '/v1/admin/members/:userId',
    operation: 'removeMember',
    summary: 'Remove a member or an invitation',
    description: 'Takes effect at once. The last owner who has signed in cannot be removed.',
    tag,
    auth,
    params: UserParams,
    errors: ['insufficient_role', 'last_owner'],
    handler: async ({ caller, params, request }) => {
      await changeTenant(deps, scopeOf(caller, request), async (change) => {
        const member = await requireMember(caller, change, params.userId as UserId);
        await assertMayChange(caller, change, member, null);
        await removeMember(caller.tenant.id, change.tx, member.userId);
        const facts = { since: member.createdAt.toISOString() };
        const changes = [{ field: 'role', from: member.role, to: null }];
        await change.audit('member.removed', member.userId, facts, { name: nameOf(member), changes });
      });
      deps.notify('tenant', { tenantId: caller.tenant.id });
      return { body: undefined };
    },
  });
}

function personOf({ email, subject }: { email?: string | undefined; subject?: string | undefined }): Person {
  if (subject !== undefined && email === undefined) return { subject };
  if (email !== undefined && subject === undefined) return { email: comparableAddress(email) };
  const message = 'Exactly one of email and subject is required';
  throw validationFailed({ field: 'email', rule: 'exclusive', message });
}

async function moveRole(
  caller: MemberCaller,
  change: Change,
  member: MemberRecord,
  role: Role,
): Promise<{ readonly was: Role | null; readonly member: MemberRecord }> {
  if (member.role === role) return { was: role, member };
  await assertMayChange(caller, change, member, role);
  await setRole(caller.tenant.id, change.tx, member.userId, role);
  const facts = { role, since: member.createdAt.toISOString() };
  const changes = [{ field: 'role', from: member.role, to: role }];
  await change.audit('member.role_changed', member.userId, facts, { name: nameOf(member), changes });
  return { was: member.role, member: { ...member, role } };
}

/** Only owners add or remove an owner, and at least one owner who has signed in must remain. */
async function assertMayChange(
  caller: MemberCaller,
  change: Change,
  member: MemberRecord,
  to: Role | null,
): Promise<void> {
  if (member.role !== 'owner' && to !== 'owner') return;
  assertOwner(change);
  if (member.role !== 'owner' || !member.hasSignedIn) return;
  const { owners } = await countMembers(caller.tenant.id, change.tx);
  if (owners <= 1) throw new AppError('last_owner');
}

function assertOwner({ role }: Change): void {
  if (role !== 'owner') throw insufficientRole('owner');
}

async function requireMember(caller: MemberCaller, { tx }: Change, userId: UserId): Promise<MemberRecord> {
  return orNotFound(await findMember(caller.tenant.id, tx, userId));
}

/** Returns the member's name, if the tenant has one on record. */
function nameOf({ email, subject }: MemberRecord): string | null {
  return email ?? subject;
}

function viewMember({ userId, subject, email, role, createdAt }: MemberRecord): z.output<typeof Member> {
  return { userId, subject, email, role, createdAt: createdAt.toISOString() };
}
