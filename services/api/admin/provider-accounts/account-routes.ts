import type { RouteModule } from '../../http/routes/route.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { providerHealthRoute } from './account-health-route.ts';
import { createAccountRoute } from './create-account.ts';
import {
  deleteAccountRoute,
  disableAccountRoute,
  enableAccountRoute,
  verifyAccountRoute,
} from './move-account.ts';
import { listAccountsRoute, showAccountRoute } from './read-accounts.ts';
import { replaceSecretRoute, rotateReceiptUrlRoute } from './rotate-account.ts';
import { updateAccountRoute } from './update-account.ts';

/** Returns the routes of `/v1/admin/providers` and below. */
export function providerAccountRoutes(deps: AdminDeps): RouteModule[] {
  return [
    createAccountRoute(deps),
    listAccountsRoute(deps),
    showAccountRoute(deps),
    providerHealthRoute(deps),
    updateAccountRoute(deps),
    deleteAccountRoute(deps),
    replaceSecretRoute(deps),
    rotateReceiptUrlRoute(deps),
    verifyAccountRoute(deps),
    enableAccountRoute(deps),
    disableAccountRoute(deps),
  ];
}
