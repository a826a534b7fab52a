import { readLedger, type ProviderCall } from '../fault/ledger.ts';
import { newToken } from '../fault/token.ts';
import { call, type CallAnswer } from '../support/http-call.ts';
import { until } from './poll.ts';

export type Sent = { readonly token: string; readonly answer: CallAnswer };

/** Sends text messages outside of the load. */
export type Sender = {
  readonly one: (origin: string, key: string) => Promise<Sent>;
  /** Sends many at once; counts the answers, such as `202` or `429 rate_limited`. */
  readonly many: (
    origin: string,
    key: string,
    count: number,
  ) => Promise<{
    readonly counts: Readonly<Record<string, number>>;
    readonly answers: readonly CallAnswer[];
  }>;
  /** Waits until a text has reached its provider. */
  readonly arrival: (token: string) => Promise<ProviderCall>;
  /** Tokens of all texts sent here; the comparison of the load's ledgers ignores them. */
  readonly tokens: ReadonlySet<string>;
};

export function createSender(providerLedger: string): Sender {
  const tokens = new Set<string>();
  const one: Sender['one'] = async (origin, key) => {
    const token = newToken();
    tokens.add(token);
    const body = { channel: 'sms', to: '+14155550100', body: token };
    return { token, answer: await call(origin, 'POST', '/v1/messages', { key, body }) };
  };
  return {
    one,
    async many(origin, key, count) {
      const sent = await Promise.all(Array.from({ length: count }, () => one(origin, key)));
      const answers = sent.map(({ answer }) => answer);
      const byAnswer = Object.entries(Object.groupBy(answers, shownAnswer));
      return {
        counts: Object.fromEntries(byAnswer.map(([shown, all = []]) => [shown, all.length])),
        answers,
      };
    },
    arrival: (token) =>
      until(`${token} at its provider`, async () => {
        const calls = await readLedger<ProviderCall>(providerLedger);
        return calls.find((call) => call.token === token);
      }),
    tokens,
  };
}

/** Returns the status, and for a refusal also its code. */
export function shownAnswer({ status, body }: CallAnswer): string {
  return status < 300 ? String(status) : `${status} ${(body as { code?: string } | null)?.code ?? ''}`.trim();
}
