import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { OutboundMessage } from '#core/domain/message/content.ts';
import { createHttpClient, type HttpClient } from '#core/platform/http/http-client.ts';
import type { LookupAnswer, LookupReport } from '#providers/lookup.ts';
import type { AnyProvider } from '#providers/provider.ts';
import { secretStrings } from '#providers/redact.ts';
import { parseAccount } from '#providers/registry.ts';
import type { Received, StandIn } from '#providers/stand-in.ts';
import { contextAt, type SentAccount } from './provider-conformance.ts';

export type LookupCase = {
  readonly provider: AnyProvider;
  readonly startStandIn: () => Promise<StandIn>;
  /** The account as a tenant sends it. */
  readonly account: SentAccount;
  readonly message: OutboundMessage;
  /** The path of the lookup request. */
  readonly path: RegExp;
  /** Checks the request that the vendor received, completely. */
  readonly request: (received: Received, providerMessageId: string) => void;
  /** A valid id of the vendor that belongs to no message. */
  readonly unknownId: string;
  /** Bodies of successful answers, and the reports that they contain. */
  readonly answers: readonly { readonly body: unknown; readonly says: readonly LookupReport[] }[];
  /** Bodies of successful answers that say that the message is unknown. */
  readonly absences?: readonly unknown[];
  /** Returns the vendor's usual error body with a given text. */
  readonly errorBody: (text: string) => unknown;
};

const PAGE = '<html><head><title>404 Not Found</title></head><body>nginx</body></html>';

/** Runs the tests that apply to every provider with a lookup over HTTP. */
export function lookupSuite(subject: LookupCase): void {
  const { provider, path } = subject;
  const account = parseAccount(provider, subject.account.publicConfig, subject.account.secretConfig);
  if (!account.ok) throw new Error('The suite was given an account that is not valid');
  let http: HttpClient;
  let standIn: StandIn;

  beforeAll(() => void (http = createHttpClient()));
  afterAll(() => http[Symbol.asyncDispose]());
  beforeEach(async () => void (standIn = await subject.startStandIn()));
  afterEach(() => standIn[Symbol.asyncDispose]());

  const context = (until?: AbortSignal) => contextAt(provider, http, standIn.origin, until);
  const ask = (
    providerMessageId: string | null,
    messageId = subject.message.id,
    until?: AbortSignal,
  ): Promise<LookupAnswer> => {
    const question = { messageId, providerMessageId };
    return provider.lookup?.ask(question, account as never, context(until)) as Promise<LookupAnswer>;
  };

  describe('the lookup of a message', () => {
    test('that was accepted returns its state', async () => {
      const sent = await provider.send(subject.message as never, account as never, context());
      const id = sent.kind === 'accepted' ? (sent.providerMessageId ?? '') : '';
      expect(await ask(id)).toMatchObject({ kind: 'found', reports: [{ state: 'delivered' }] });
      const [asked] = standIn.received.filter((one) => one.method === 'GET' && path.test(one.path));
      subject.request(asked as Received, id);
    });

    test.each(provider.lookup?.by === 'reference' ? [null] : [])(
      'by our reference alone finds an accepted message',
      async () => {
        const other = '7f3b2a34-1111-4222-8333-444455557777';
        expect(await ask(null)).toEqual({ kind: 'not_found' });
        const sent = await provider.send(subject.message as never, account as never, context());
        expect(await ask(null)).toMatchObject({ kind: 'found', reports: [{ state: 'delivered' }] });
        const { providerMessageId } = (await ask(null)) as { providerMessageId?: string };
        expect(sent).toMatchObject({ providerMessageId });
        expect(await ask(null, other)).toEqual({ kind: 'not_found' });
      },
    );

    test('that was not accepted returns not_found', async () => {
      expect(await ask(subject.unknownId)).toEqual({ kind: 'not_found' });
    });

    test.each(subject.answers)('returns $says for the answer $body', async ({ body, says }) => {
      standIn.fail({ kind: 'reply', status: 200, body }, path);
      expect(await ask(subject.unknownId)).toEqual({ kind: 'found', reports: says });
    });

    test.each((subject.absences ?? []).map((body) => ({ body })))(
      'returns not_found for the answer $body',
      async ({ body }) => {
        standIn.fail({ kind: 'reply', status: 200, body }, path);
        expect(await ask(subject.unknownId)).toEqual({ kind: 'not_found' });
      },
    );

    test('with a hostile id calls no other path', async () => {
      await ask('../..//x?y=1#z');
      await ask('..');
      const asked = standIn.received.map((one) => one.path);
      expect(asked.filter((one) => !path.test(one))).toEqual([]);
    });
  });

  describe('a lookup without a usable answer', () => {
    const secrets = secretStrings(subject.account.secretConfig);

    test.each([
      [401, 'forbidden', 'auth_or_config'],
      [403, 'forbidden', 'auth_or_config'],
      [429, 'unanswered', 'provider_throttled'],
      [500, 'unanswered', 'provider_unavailable'],
      [503, 'unanswered', 'provider_unavailable'],
      [504, 'unanswered', 'provider_unavailable'],
    ])('with status %i returns %s and shows no secret', async (status, kind, failureClass) => {
      const body = subject.errorBody(`Refused: ${secrets.join(' ')}`);
      standIn.fail({ kind: 'reply', status, headers: { 'retry-after': '7' }, body }, path);
      const answer = await ask(subject.unknownId);
      expect(answer).toMatchObject({
        kind,
        failure: { class: failureClass, httpStatus: status },
        ...(kind === 'unanswered' ? { retryAfterMs: 7_000 } : {}),
      });
      for (const secret of secrets) expect(JSON.stringify(answer)).not.toContain(secret);
    });

    test.each([
      ['an HTML page', { kind: 'reply', status: 200, body: PAGE }],
      ['an HTML page with 404', { kind: 'reply', status: 404, body: PAGE }],
      ['no body', { kind: 'reply', status: 200 }],
      ['JSON of another shape', { kind: 'reply', status: 200, body: { other: [1] } }],
      ['null', { kind: 'reply', status: 200, body: 'null' }],
      ['a broken body', { kind: 'broken-body', status: 200 }],
      ['a broken connection', { kind: 'reset' }],
      ['a timeout', { kind: 'hang' }],
    ] as const)('with %s returns unanswered', async (_, fault) => {
      const deadline = new AbortController();
      const timed = { ...fault, onReached: () => deadline.abort() };
      standIn.fail(timed, path);
      expect(await ask(subject.unknownId, subject.message.id, deadline.signal)).toMatchObject({
        kind: 'unanswered',
        failure: { class: 'provider_unavailable' },
      });
    });
  });
}
