import type { Channel } from '#core/domain/message/channel.ts';

/** Message fields that a vendor may or may not support, by channel, with their names in `POST /v1/messages`. */
export type MessageFields = {
  sms: 'body' | 'from' | 'expiresAt';
  email: 'from' | 'subject' | 'bodyHtml' | 'bodyText' | 'replyTo' | 'headers' | 'attachments' | 'expiresAt';
  push: 'title' | 'body' | 'data' | 'badge' | 'sound' | 'collapseKey' | 'expiresAt';
  whatsapp:
    | 'body'
    | 'template'
    | 'template.header'
    | 'template.buttons'
    | 'media'
    | 'media.caption'
    | 'media.filename'
    | 'expiresAt';
};

/**
 * What a provider's page says in addition to its schemas. Sentences for people, with names in backquotes; no links and no
 * other markup.
 */
export type ProviderGuide<C extends Channel = Channel> = {
  /** The vendor's own documentation; null when the provider has no vendor. */
  readonly documentation: string | null;
  /** How to find the credentials in the vendor's console, step by step, with the labels of its pages. */
  readonly credentials: readonly string[];
  /** Both halves of an example account. {@link PEM_EXAMPLE} stands for a private key. */
  readonly account: {
    readonly publicConfig: Readonly<Record<string, unknown>>;
    readonly secretConfig: Readonly<Record<string, unknown>>;
  };
  /** How the vendor uses each field; null: the vendor does not support it. */
  readonly fields: Readonly<Record<MessageFields[C], string | null>>;
  /** Bodies for `POST /v1/messages`, without `channel`. */
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  /** Limits in addition to those of settings and fields: lengths, rates, how long the vendor retries. */
  readonly limits: readonly string[];
  /** Vendor features that a message cannot request. */
  readonly unsupported: readonly string[];
};

/** A guide without its channel type. */
export type AnyGuide = Omit<ProviderGuide, 'fields'> & {
  readonly fields: Readonly<Record<string, string | null>>;
};

/** Stands for a private key: secret scanners would report a real one as leaked. */
export const PEM_EXAMPLE = '-----BEGIN PRIVATE KEY-----\n…\n-----END PRIVATE KEY-----';

/** Returns the fields that the vendor does not support. */
export function unsupportedFields({ fields }: Pick<AnyGuide, 'fields'>): string[] {
  return Object.entries(fields)
    .filter(([, meaning]) => meaning === null)
    .map(([field]) => field)
    .toSorted();
}
