import { z } from 'zod';
import type { EpochClock } from '#core/domain/clock.ts';
import { orNotFound, validationFailed } from '#core/domain/fault/app-error.ts';
import {
  isUnsubscribeOver,
  readUnsubscribeToken,
  type UnsubscribeKey,
  type Unsubscribing,
} from '#core/domain/recipient/unsubscribe-token.ts';
import { defineRawRoute, type RawAnswer, type RawRequest } from '../http/routes/raw-route.ts';
import type { RouteModule } from '../http/routes/route.ts';
import { askPage, donePage, ONE_CLICK, overPage } from './unsubscribe-page.ts';

/** Who unsubscribes, and from which address. */
export type UnsubscribeRequest = { readonly about: Unsubscribing; readonly id: string; readonly ip: string };

export type UnsubscribeDeps = {
  /** Key of the tokens in the links. */
  readonly key: UnsubscribeKey;
  /** Stores that the recipient wants no more marketing mail. Idempotent. @throws AppError `not_found` */
  readonly unsubscribe: (request: UnsubscribeRequest) => Promise<void>;
  readonly epochMs: EpochClock;
};

/** A form with a single field, plus whatever a mail program adds. */
const BODY_BYTES_MAX = 8 * 1024;

const UnsubscribeParams = z.object({
  token: z
    .string()
    .describe('Part of the link in the mail. It identifies the recipient and cannot be forged.'),
});

const shared = {
  path: '/v1/unsubscribe/:token',
  tag: 'Unsubscribing',
  params: UnsubscribeParams,
  status: 200,
  answers: { 'text/html': '<!doctype html><title>Unsubscribe</title>' },
  notFoundAnswers: { 'text/html': '<!doctype html><title>Link expired</title>' },
} as const;

type Admitted = {
  readonly owner: string;
  readonly bytesMax: number;
  readonly about: Unsubscribing;
};

/** The routes that recipients of marketing mail call, or their mail programs on their behalf (RFC 8058). */
export function unsubscribeRoutes({ key, unsubscribe, epochMs }: UnsubscribeDeps): RouteModule {
  function admit({ token }: z.input<typeof UnsubscribeParams>): Admitted {
    const about = orNotFound(readUnsubscribeToken(key, token));
    return { owner: about.tenantId, bytesMax: BODY_BYTES_MAX, about };
  }

  async function act({ about }: Admitted, { body, id, ip }: RawRequest): Promise<RawAnswer> {
    if (isUnsubscribeOver(about.issuedAt, epochMs())) return overPage();
    if (!isOneClick(body)) {
      const message = `Must be ${ONE_CLICK.value}`;
      throw validationFailed({ field: ONE_CLICK.name, rule: 'value', message });
    }
    await unsubscribe({ about, id, ip });
    return donePage(about.address);
  }

  const post = defineRawRoute({
    ...shared,
    method: 'POST',
    operation: 'unsubscribeRecipient',
    summary: 'Unsubscribe a recipient',
    description:
      'One click of a recipient, or of their mail program (RFC 8058): a form with `List-Unsubscribe=One-Click`, of either form media type. Stores a suppression of marketing mail with the reason `unsubscribe`. Links are valid for 13 months after the mail was accepted, regardless of how long its record is kept; an older link is answered with a page that says so, and 404.',
    errors: ['not_found', 'validation_failed'],
    admit,
    handler: act,
  });
  const get = defineRawRoute({
    ...shared,
    method: 'GET',
    operation: 'askToUnsubscribe',
    summary: 'Ask a recipient whether to unsubscribe',
    description:
      'A page with a button, for people who follow the link. It changes nothing, because programs that check mails also follow links.',
    errors: ['not_found'],
    isSafe: true,
    admit,
    handler: async ({ about }) =>
      isUnsubscribeOver(about.issuedAt, epochMs()) ? overPage() : askPage(about.address),
  });
  return (app) => {
    post(app);
    get(app);
  };
}

/** Accepts `application/x-www-form-urlencoded` and `multipart/form-data`, also without a content type. */
function isOneClick(body: Buffer): boolean {
  const text = body.toString('latin1');
  return (
    new URLSearchParams(text.trim()).get(ONE_CLICK.name) === ONE_CLICK.value ||
    /name="?List-Unsubscribe"?\r?\n(?:[^\r\n]+\r?\n)*\r?\nOne-Click\r?\n/i.test(text)
  );
}
