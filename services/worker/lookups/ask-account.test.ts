import { expect, test } from 'vitest';
import type { DueLookup } from '#core/store/receipts/lookups.ts';
import type { LookupAnswer, LookupQuestion, LookupReport } from '#providers/lookup.ts';
import type { ProviderContext } from '#providers/provider.ts';
import { askAccount, resultOf } from './ask-account.ts';

const ANSWER: LookupAnswer = { kind: 'not_found' };
const DUE = {
  messageId: 'message',
  providerMessageId: 'SM1',
  accountId: 'a',
  accountVersion: 1,
} as DueLookup;

type Asking = {
  /** How the provider finds messages; undefined for one without lookups. */
  readonly by?: 'id' | 'reference';
  readonly status?: 'active' | 'disabled';
};

async function ask(due: Partial<DueLookup>, { by, status = 'active' }: Asking = { by: 'id' }) {
  const questions: LookupQuestion[] = [];
  const lookup = by && {
    by,
    ask: async (question: LookupQuestion) => (questions.push(question), ANSWER),
  };
  const account = {
    id: 'a',
    provider: { id: 'twilio', lookup },
    version: 1,
    config: {},
    secrets: { authToken: 'a secret' },
    row: { status },
  };
  const [asked] = await askAccount([{ ...DUE, ...due }], {
    accounts: { get: async () => ({ kind: 'ready', account: account as never }) },
    contextOf: () => ({}) as ProviderContext,
    deadlineMs: 10_000,
    signal: new AbortController().signal,
    onAdapterFault: () => undefined,
  });
  return { answer: asked?.answer, hidden: asked?.hidden, questions };
}

test('a message is asked for by both its ids, and the secrets of its account are hidden', async () => {
  expect(await ask({})).toEqual({
    answer: ANSWER,
    hidden: ['a secret'],
    questions: [{ messageId: 'message', providerMessageId: 'SM1' }],
  });
});

test('a provider that finds messages by its own id alone is not asked for one without', async () => {
  expect(await ask({ providerMessageId: null })).toMatchObject({
    answer: { kind: 'unanswerable' },
    questions: [],
  });
  expect(await ask({ providerMessageId: null }, { by: 'reference' })).toMatchObject({
    answer: ANSWER,
    questions: [{ messageId: 'message', providerMessageId: null }],
  });
});

test.each([
  [
    'of a disabled account, whose credential is not used',
    {},
    { by: 'id', status: 'disabled' },
    { kind: 'unanswered', failure: { code: 'not_ready' } },
  ],
  ['of a deleted account', { accountVersion: null }, { by: 'id' }, { kind: 'unanswerable' }],
  ['of a provider without lookups', {}, {}, { kind: 'unanswerable' }],
] as const)('a message %s is not asked for', async (_, due, account, answer) => {
  expect(await ask(due, account)).toMatchObject({ answer, questions: [] });
});

const report = (over: Partial<LookupReport>): LookupReport => ({ providerStatus: 'x', ...over });

test.each<[what: string, reports: readonly LookupReport[], isFinal: boolean]>([
  ['a delivery', [report({ state: 'delivered' })], true],
  ['a refusal', [report({ state: 'undelivered' })], true],
  ['a refusal for the present', [report({ state: 'undelivered', isTemporary: true })], false],
  ['a message that is on its way', [report({ state: 'sent' })], false],
  ['a delivery of one of its parts', [report({ state: 'sent' }), report({ state: 'delivered' })], true],
  ['nothing', [], false],
])('an answer that reports %s: final is %s', (_, reports, isFinal) => {
  expect(resultOf({ kind: 'found', reports })).toEqual({ kind: 'answered', isFinal });
});

test('a vendor that throttles, and the wait that it asks for, are kept', () => {
  const failure = { class: 'provider_throttled', code: 'too_many_requests' } as const;
  expect(resultOf({ kind: 'unanswered', failure, retryAfterMs: 7_000 })).toEqual({
    kind: 'unanswered',
    isThrottled: true,
    retryAfterMs: 7_000,
  });
  expect(
    resultOf({ kind: 'unanswered', failure: { class: 'provider_unavailable', code: 'timeout' } }),
  ).toStrictEqual({ kind: 'unanswered', isThrottled: false });
});
