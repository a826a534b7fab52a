import type { TenantId, UserId } from '#core/domain/storage/ids.ts';
import type { Role } from '#core/domain/tenant/role.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';

export type Member = {
  readonly userId: UserId;
  /** Null for an invitation that has not been accepted yet. */
  readonly subject: string | null;
  /** Also null if the tenant may not see the address. */
  readonly email: string | null;
  readonly role: Role;
  /** False for an invitation, and for a person named by subject who has never signed in. */
  readonly hasSignedIn: boolean;
  readonly createdAt: Date;
};

/** A page of members starts after this one. The time is text, because it is finer than a `Date`. */
export type MemberPosition = { readonly createdAt: string; readonly userId: string };

/** Returns members, newest first. */
export async function listMembers(
  tenantId: TenantId,
  tx: TransactionSql,
  query: { readonly after: MemberPosition | undefined; readonly most: number },
): Promise<{ readonly member: Member; readonly position: MemberPosition }[]> {
  const { after, most } = query;
  const rows = camelRows<Member & { readonly position: string }>(
    await tx`
      select ${columns(tx)}, m.created_at::text as position
      from members m join users u on u.id = m.user_id
      where m.tenant_id = ${tenantId}
        ${
          after === undefined
            ? tx``
            : tx`and (m.created_at, m.user_id) < (${after.createdAt}::text::timestamptz, ${after.userId}::uuid)`
        }
      order by m.created_at desc, m.user_id desc limit ${most}`.values(),
  );
  return rows.map(({ position, ...member }) => ({
    member,
    position: { createdAt: position, userId: member.userId },
  }));
}

export async function findMember(
  tenantId: TenantId,
  tx: TransactionSql,
  userId: UserId,
): Promise<Member | undefined> {
  const [row] = camelRows<Member>(
    await tx`
      select ${columns(tx)} from members m join users u on u.id = m.user_id
      where m.tenant_id = ${tenantId} and m.user_id = ${userId}`.values(),
  );
  return row;
}

export async function findRole(
  tenantId: TenantId,
  tx: TransactionSql,
  userId: UserId,
): Promise<Role | undefined> {
  const [row] = await tx<{ role: Role }[]>`
    select role from members where tenant_id = ${tenantId} and user_id = ${userId}`;
  return row?.role;
}

/** Returns the member's role like `findRole`. Its change and the member's removal wait until the transaction ends. */
export async function lockRole(
  tenantId: TenantId,
  tx: TransactionSql,
  userId: UserId,
): Promise<Role | undefined> {
  // No weaker lock: many calls of the member could share one without a gap, and a removal would wait for all of them.
  const [row] = await tx<{ role: Role }[]>`
    select role from members where tenant_id = ${tenantId} and user_id = ${userId} for no key update`;
  return row?.role;
}

/** A person as their tenant names them: by the issuer's subject, or by e-mail address. */
export type Person = { readonly subject: string } | { readonly email: string };

/** Returns the member that this person is already, whether signed in or invited. */
export async function findMemberLike(
  tenantId: TenantId,
  tx: TransactionSql,
  issuer: string,
  person: Person,
): Promise<Member | undefined> {
  const matches =
    'subject' in person
      ? tx`u.issuer = ${issuer} and u.subject = ${person.subject}`
      : tx`m.email_known and lower(u.email) = lower(${person.email})`;
  const [row] = camelRows<Member>(
    await tx`
      select ${columns(tx)} from members m join users u on u.id = m.user_id
      where m.tenant_id = ${tenantId} and ${matches}
      order by u.subject is null, m.created_at limit 1`.values(),
  );
  return row;
}

/** Adds a member. An e-mail address waits for its owner's first sign-in; a subject becomes a user at once. */
export async function inviteMember(
  tenantId: TenantId,
  tx: TransactionSql,
  issuer: string,
  person: Person,
  role: Role,
): Promise<UserId> {
  const { subject = null, email = null } = person as { subject?: string; email?: string };
  const [row] = await tx<{ user_id: UserId }[]>`
    insert into members (tenant_id, user_id, role, email_known)
    select ${tenantId}, invite_user(${issuer}, ${subject}, ${email}), ${role}, ${email !== null}
    returning user_id`;
  if (row === undefined) throw new Error('an invitation returned no row');
  return row.user_id;
}

export async function setRole(
  tenantId: TenantId,
  tx: TransactionSql,
  userId: UserId,
  role: Role,
): Promise<void> {
  await tx`update members set role = ${role} where tenant_id = ${tenantId} and user_id = ${userId}`;
}

/** Removes a member. Of a person who never signed in and whom no other tenant names, nothing is kept. */
export async function removeMember(tenantId: TenantId, tx: TransactionSql, userId: UserId): Promise<void> {
  await tx`delete from members where tenant_id = ${tenantId} and user_id = ${userId}`;
  await tx`select forget_named_user(${userId})`;
}

/**
 * Counts members and owners. A person who has never signed in counts as a member but not as an owner, because they may never be
 * able to act as one.
 */
export async function countMembers(
  tenantId: TenantId,
  tx: TransactionSql,
): Promise<{ readonly members: number; readonly owners: number }> {
  const [row] = await tx<{ members: number; owners: number }[]>`
    select count(*)::integer as members,
      (count(*) filter (where m.role = 'owner' and u.has_signed_in))::integer as owners
    from members m join users u on u.id = m.user_id where m.tenant_id = ${tenantId}`;
  return row ?? { members: 0, owners: 0 };
}

function columns(tx: TransactionSql) {
  return tx`m.user_id, u.subject, case when m.email_known then u.email end as email, m.role, u.has_signed_in, m.created_at`;
}
