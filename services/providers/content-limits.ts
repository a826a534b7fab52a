import type { Outcome } from '#core/domain/sending/outcome.ts';
import type { AnyProvider } from './provider.ts';

/** The fields of a provider that define its limits. */
type Limited = Pick<AnyProvider, 'name' | 'bodyCharactersMax'>;

export type ContentWarning = { readonly field: string; readonly message: string };

/** Returns warnings about content that this provider would refuse; an empty list when there is nothing to warn about. */
export function contentWarnings(provider: Limited, content: unknown): readonly ContentWarning[] {
  const most = provider.bodyCharactersMax;
  if (!isBodyTooLong(most, content)) return [];
  return [
    { field: 'body', message: `${provider.name} takes at most ${most} characters and will refuse this` },
  ];
}

/**
 * Returns the outcome of a message that exceeds the vendor's size limit, without calling the vendor; undefined for any
 * other message.
 */
export function contentRefusal(provider: Limited, content: unknown): Outcome | undefined {
  const most = provider.bodyCharactersMax;
  if (!isBodyTooLong(most, content)) return undefined;
  const providerMessage = `${provider.name} takes at most ${most} characters`;
  return {
    kind: 'rejected_permanent',
    failure: { class: 'content_rejected', code: 'body_too_long', providerMessage },
  };
}

/**
 * Counts code points, the smallest count that a vendor could use. A text that passes here but exceeds the vendor's own
 * count is refused by the vendor.
 */
function isBodyTooLong(most: number | null, content: unknown): boolean {
  const body = (content as { readonly body?: unknown } | null)?.body;
  if (most === null || typeof body !== 'string' || body.length <= most) return false;
  let count = 0;
  for (const _ of body) count += 1;
  return count > most;
}
