import { accessToken } from '../oauth.ts';
import type { ProviderContext } from '../provider.ts';
import type { Account } from './account.ts';

/** Gets the mailbox's access token from its issuer in exchange for the refresh token. @throws TokenRefused */
export function mailToken(
  { config, secrets }: Account,
  issuer: NonNullable<Account['config']['oauthIssuer']>,
  context: ProviderContext,
): Promise<string> {
  const form = {
    grant_type: 'refresh_token',
    client_id: secrets.clientId ?? '',
    client_secret: secrets.clientSecret ?? '',
    refresh_token: secrets.refreshToken ?? '',
  };
  if (issuer === 'google') {
    return accessToken(context, `${context.origin('https://oauth2.googleapis.com')}/token`, async () => form);
  }
  const origin = context.origin('https://login.microsoftonline.com');
  const scope = 'https://outlook.office.com/SMTP.Send offline_access';
  return accessToken(context, `${origin}/${config.oauthTenant}/oauth2/v2.0/token`, async () => ({
    ...form,
    scope,
  }));
}
