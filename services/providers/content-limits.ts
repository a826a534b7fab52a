import type { Outcome } from '#core/domain/outcome.ts';
import type { AnyProvider } from './provider.ts';

/** The part of a provider that its limits are. */
type Limited = Pick<AnyProvider, 'name' | 'bodyCharactersMax'>;

export type ContentWarning = { readonly field: string; readonly message: string };

/** What a sender should know of a message that this provider would refuse. Empty where nothing is wrong. */
export function contentWarnings(provider: Limited, content: unknown): readonly ContentWarning[] {
  const most = provider.bodyCharactersMax;
  if (!isBodyTooLong(most, content)) return [];
  return [
    { field: 'body', message: `${provider.name} takes at most ${most} characters and will refuse this` },
  ];
}

/** The outcome of a message that the vendor is not asked about, since it takes none of that size; undefined for others. */
export function contentRefusal(provider: Limited, content: unknown): Outcome | undefined {
  const most = provider.bodyCharactersMax;
  if (!isBodyTooLong(most, content)) return undefined;
  const providerMessage = `${provider.name} takes at most ${most} characters`;
  return {
    kind: 'rejected_permanent',
    failure: { class: 'content_rejected', code: 'body_too_long', providerMessage },
  };
}

/** Counts code points, the least that a vendor could count: what passes here and not there, the vendor refuses itself. */
function isBodyTooLong(most: number | null, content: unknown): boolean {
  const body = (content as { readonly body?: unknown } | null)?.body;
  if (most === null || typeof body !== 'string' || body.length <= most) return false;
  let count = 0;
  for (const _ of body) count += 1;
  return count > most;
}
