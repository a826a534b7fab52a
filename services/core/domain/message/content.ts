import type { WhatsappMediaType } from './whatsapp-media.ts';

/**
 * The content of a message, per channel, as the api validated it and the worker sends it. Stored as one JSON value. Absent and
 * empty differ only where noted.
 */
export type SmsContent = { readonly body: string };

export type EmailContent = {
  /** RFC 5322 mailbox, parsed by the api. */
  readonly from: { readonly name?: string; readonly address: string };
  readonly subject: string;
  readonly text?: string;
  readonly html?: string;
  readonly replyTo?: { readonly name?: string; readonly address: string };
  readonly headers?: Readonly<Record<string, string>>;
  readonly attachments?: readonly {
    readonly filename: string;
    readonly contentType: string;
    /** Base64. */
    readonly content: string;
  }[];
};

export type PushContent = {
  readonly title?: string;
  readonly body?: string;
  readonly data?: Readonly<Record<string, unknown>>;
  readonly badge?: number;
  readonly sound?: string;
  readonly collapseKey?: string;
};

export type WhatsappContent =
  | { readonly kind: 'text'; readonly body: string }
  | {
      readonly kind: 'template';
      readonly name: string;
      /** For example `en_US`. */
      readonly language: string;
      /** Positional (array) or named (object) body variables. */
      readonly variables: readonly string[] | Readonly<Record<string, string>>;
      readonly header?: TemplateHeader | undefined;
      readonly buttons?: readonly TemplateButton[] | undefined;
    }
  | {
      readonly kind: 'media';
      readonly url: string;
      readonly type: WhatsappMediaType;
      readonly caption?: string | undefined;
      /** Only for documents. */
      readonly filename?: string | undefined;
    };

export type TemplateHeader =
  | { readonly type: 'text'; readonly text: string; readonly parameterName?: string | undefined }
  | { readonly type: 'image' | 'video'; readonly url: string }
  | { readonly type: 'document'; readonly url: string; readonly filename?: string | undefined }
  | {
      readonly type: 'location';
      readonly latitude: number;
      readonly longitude: number;
      readonly name?: string | undefined;
      readonly address?: string | undefined;
    };

/** `index`: position of the button in the template, from 0; default its position in the list. */
export type TemplateButton = { readonly index?: number | undefined } & (
  | { readonly type: 'url'; readonly text: string }
  | { readonly type: 'quick_reply'; readonly payload: string }
  | { readonly type: 'copy_code'; readonly code: string }
);

type Envelope = {
  /** The message's public id; goes into the provider's correlation field. */
  readonly id: string;
  /** Normal form of the recipient: E.164, bare mail address, or device token. */
  readonly to: string;
  /** Sender given with the message (sms), else the account's own. */
  readonly from?: string;
  /** Provider calls must not be made after this instant (milliseconds since the epoch). */
  readonly expiresAt: number;
  /** Where the vendor can report on this message; absent if no receipts are requested. Contains a secret token. */
  readonly receiptUrl?: string;
  /** Number of the call for this message; the first is 1. */
  readonly attempt: number;
};

export type OutboundMessage =
  | (Envelope & { readonly channel: 'sms'; readonly content: SmsContent })
  | (Envelope & { readonly channel: 'email'; readonly content: EmailContent })
  | (Envelope & { readonly channel: 'push'; readonly content: PushContent })
  | (Envelope & { readonly channel: 'whatsapp'; readonly content: WhatsappContent });

export type OutboundFor<C extends OutboundMessage['channel']> = Extract<OutboundMessage, { channel: C }>;

/**
 * Maximum size of a request whose content is stored in the message's row, in bytes: a larger one would slow down the batch that
 * accepts it.
 */
export const INLINE_BYTES_MAX = 32 * 1024;
/** Shorter requests do not count towards a claim's byte limit, because a full claim of them is still small. */
export const COUNTED_BYTES_MIN = 2 * 1024;

/** Replaces a content in the message's row that is stored separately because of its size. */
export type ContentApart = { readonly storedBytes: number };

/** Returns undefined if the content itself is in the row. */
export function contentApart(content: unknown): ContentApart | undefined {
  const { storedBytes } = (content ?? {}) as { storedBytes?: unknown };
  return typeof storedBytes === 'number' ? { storedBytes } : undefined;
}
