import { AppError, validationFailed } from '#core/domain/fault/app-error.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import {
  chooseAccount,
  NO_ACCOUNT,
  routeFor,
  type AccountChoice,
} from '#core/domain/routing/choose-account.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Route } from '#core/domain/routing/route.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { listSendingAccounts, type SendingAccount } from '#core/store/accounts/sending-accounts.ts';
import { listRoutes } from '#core/store/accounts/routes.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import type { KeyCaller } from '../auth/auth.ts';
import type { SendMessage } from './send-message-schema.ts';

/** A tenant's accounts that are not disabled, oldest first, and the routes that it has set. */
export type Routing = {
  readonly sendingAccounts: readonly SendingAccount[];
  readonly routes: readonly Route[];
};

/** The account chosen for a message, and how it was chosen. */
export type Routed = Pick<AccountChoice<SendingAccount>, 'routeVersion' | 'skipped'> & {
  readonly accountId: string;
};

const TO_SIMULATOR: Routed = { accountId: NO_ACCOUNT, routeVersion: null, skipped: [] };

/**
 * Chooses the account for the message and returns it with the routing it was chosen from.
 * @param messageId The id that the message will get.
 * @param load Loads the current accounts and routes, when the caller's cached copy has none for the message.
 * @throws AppError when there is no account.
 */
export async function accountFor(
  caller: Routing & { readonly key: Pick<KeyCaller['key'], 'mode'> },
  message: Pick<SendMessage, 'channel' | 'providerId'>,
  messageId: string,
  load: () => Promise<Routing>,
): Promise<{ readonly routing: Routing; readonly routed: Routed }> {
  const { channel, providerId } = message;
  const isTest = caller.key.mode === 'test';
  const choose = (routing: Routing) => {
    const wanted = { id: messageId, channel, pinned: providerId ?? null };
    const choice = chooseAccount(routing.sendingAccounts, wanted, routing.routes);
    if (choice === undefined) return undefined;
    const { account, routeVersion, skipped } = choice;
    return { routing, routed: isTest ? TO_SIMULATOR : { accountId: account.id, routeVersion, skipped } };
  };
  const known = choose(caller);
  if (known !== undefined) return known;
  // A test key needs no account, but an account named in the request must exist, as with a live key.
  if (isTest && providerId === undefined) return { routing: caller, routed: TO_SIMULATOR };
  // A cached copy alone never causes a refusal: the account may be new.
  const routing = await load();
  const found = choose(routing);
  if (found !== undefined) return found;
  const { sendingAccounts, routes } = routing;
  if (
    providerId !== undefined &&
    (isTest || sendingAccounts.some((account) => account.channel === channel))
  ) {
    const message = 'Must be a provider account of this tenant that serves the channel and is not disabled';
    throw validationFailed({ field: 'providerId', rule: 'provider', message });
  }
  throw new AppError('provider_not_configured', { message: whyNone(channel, routes) });
}

/** Says why no account can send messages of the channel. */
export function whyNone(channel: Channel, routes: readonly Route[]): string {
  return routeFor(channel, routes) === undefined
    ? `No provider is configured for channel '${channel}'`
    : `The route of channel '${channel}' has no provider that can be used`;
}

/** Returns the routing columns of the message's row. */
export function routeColumns({ accountId, routeVersion, skipped }: Routed) {
  return {
    account_id: accountId,
    route_version: routeVersion === null || routeVersion === 0 ? undefined : routeVersion,
    route_skipped: skipped.length === 0 ? undefined : skipped,
  };
}

export function loadRouting(sql: Sql, tenantId: TenantId): Promise<Routing> {
  return withTenant(sql, tenantId, (tx) => readRouting(tenantId, tx));
}

export async function readRouting(tenantId: TenantId, tx: TransactionSql): Promise<Routing> {
  return { sendingAccounts: await listSendingAccounts(tenantId, tx), routes: await listRoutes(tenantId, tx) };
}
