import type { Channel } from '#core/domain/channel.ts';

/** Fields of a message that a vendor may take or not, by channel, as `POST /v1/messages` names them. */
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
 * What the page of a provider says that its schemas do not. Sentences for people, with names in backquotes; no links and
 * no other markup.
 */
export type ProviderGuide<C extends Channel = Channel> = {
  /** The vendor's own documentation; null where a provider has no vendor. */
  readonly documentation: string | null;
  /** How to find the credentials in the vendor's console, step by step, in the words of its pages. */
  readonly credentials: readonly string[];
  /** Both halves of an account, for the example. {@link PEM_EXAMPLE} stands for a private key. */
  readonly account: {
    readonly publicConfig: Readonly<Record<string, unknown>>;
    readonly secretConfig: Readonly<Record<string, unknown>>;
  };
  /** What becomes of each field at the vendor; null: the vendor has no place for it. */
  readonly fields: Readonly<Record<MessageFields[C], string | null>>;
  /** Bodies for `POST /v1/messages`, without `channel`. */
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  /** Bounds beside those of settings and fields: lengths, rates, how long the vendor tries. */
  readonly limits: readonly string[];
  /** What the vendor offers and messages cannot ask for. */
  readonly unsupported: readonly string[];
};

/** The channel forgotten. */
export type AnyGuide = Omit<ProviderGuide, 'fields'> & {
  readonly fields: Readonly<Record<string, string | null>>;
};

/** In the place of a private key: a real one in a text would be taken for one that leaked. */
export const PEM_EXAMPLE = '-----BEGIN PRIVATE KEY-----\n…\n-----END PRIVATE KEY-----';

/** Fields that the vendor has no place for. */
export function unsupportedFields({ fields }: Pick<AnyGuide, 'fields'>): string[] {
  return Object.entries(fields)
    .filter(([, meaning]) => meaning === null)
    .map(([field]) => field)
    .toSorted();
}
