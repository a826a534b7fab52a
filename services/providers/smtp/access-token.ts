import { accessToken } from '../oauth.ts';
import type { ProviderContext } from '../provider.ts';
import type { Account } from './account.ts';

const DELEGATED_SCOPE = 'https://outlook.office.com/SMTP.Send offline_access';
/** Whatever the application may do at Exchange Online without a user, among it SMTP.SendAsApp. */
const APPLICATION_SCOPE = 'https://outlook.office365.com/.default';

/**
 * Gets the mailbox's access token from its issuer: in exchange for the refresh token, or at Microsoft in the application's own
 * name if there is none. The refresh token that Microsoft returns with each answer is not stored, so the account's own ends after
 * 90 days.
 * @throws TokenRefused
 */
export function mailToken(
  { config, secrets }: Account,
  issuer: NonNullable<Account['config']['oauthIssuer']>,
  context: ProviderContext,
): Promise<string> {
  const { clientId = '', clientSecret = '', refreshToken } = secrets;
  const client = { client_id: clientId, client_secret: clientSecret };
  const byUser = { ...client, grant_type: 'refresh_token', refresh_token: refreshToken ?? '' };
  if (issuer === 'google') {
    return accessToken(
      context,
      `${context.origin('https://oauth2.googleapis.com')}/token`,
      async () => byUser,
    );
  }
  const origin = context.origin('https://login.microsoftonline.com');
  return accessToken(context, `${origin}/${config.oauthTenant}/oauth2/v2.0/token`, async () =>
    refreshToken === undefined
      ? { ...client, grant_type: 'client_credentials', scope: APPLICATION_SCOPE }
      : { ...byUser, scope: DELEGATED_SCOPE },
  );
}
