import type { OidcIssuer } from '#test/support/oidc-issuer.ts';

export const AUDIENCE = 'despatch';

/** People who can sign in. Members' roles are in the database; the platform admin is set by configuration. */
export const PEOPLE = {
  owner: { sub: 'quickstart-owner', email: 'olivia@acme.example', name: 'Olivia Owner' },
  viewer: { sub: 'quickstart-viewer', email: 'victor@acme.example', name: 'Victor Viewer' },
  otherOwner: { sub: 'quickstart-other-owner', email: 'otto@globex.example', name: 'Otto Other' },
  platform: { sub: 'quickstart-platform', email: 'paula@platform.example', name: 'Paula Platform' },
} as const;

export type Tokens = { readonly [Person in keyof typeof PEOPLE]: string };

const LIFETIME_S = 7 * 86_400;

/** Mints tokens as the issuer would after a sign-in, valid for a week. */
export async function mintTokens(oidc: Pick<OidcIssuer, 'mint'>, issuer: string): Promise<Tokens> {
  const entries = Object.entries(PEOPLE).map(async ([person, claims]) => {
    const token = await oidc.mint({
      ...claims,
      emailVerified: true,
      audience: AUDIENCE,
      issuer,
      expiresInSeconds: LIFETIME_S,
    });
    return [person, token] as const;
  });
  return Object.fromEntries(await Promise.all(entries)) as Tokens;
}
