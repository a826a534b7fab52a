import { expect, test } from 'vitest';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { createProviderContexts } from '#providers/context.ts';
import type { AnyProvider } from '#providers/provider.ts';
import { parseAccount, simulatorFor } from '#providers/registry.ts';
import { BEHAVIOURS, type Behaviour } from '../behaviour.ts';

/** The recipient that selects a behaviour, in each channel's address format. */
const RECIPIENT: Readonly<Record<string, (behaviour: Behaviour) => string>> = {
  sms: (behaviour) => `+1555000000${BEHAVIOURS.indexOf(behaviour) + 1}`,
  whatsapp: (behaviour) => `+1555000000${BEHAVIOURS.indexOf(behaviour) + 1}`,
  email: (behaviour) => `${behaviour}@simulator.invalid`,
  push: (behaviour) => behaviour,
};

const noNetwork = createProviderContexts({
  http: () => Promise.reject(new Error('a simulator makes no network call')),
  resolve: () => Promise.reject(new Error('a simulator makes no network call')),
})({ provider: 'simulator', accountId: 'a', version: 1, until: new AbortController().signal });

function send(provider: AnyProvider, to: string, attempt = 1) {
  const message = { channel: provider.channel, id: 'm1', to, content: {}, expiresAt: 0, attempt };
  return provider.send(message as never, { config: {}, secrets: {} } as never, noNetwork);
}

const delivered = { receipt: 'delivered' };

for (const channel of CHANNELS) {
  const simulator = simulatorFor(channel);
  const to = (behaviour: Behaviour) => RECIPIENT[channel]?.(behaviour) ?? '';

  test.each([
    ['delivered', [delivered]],
    ['repeated', [delivered, delivered]],
    ['reordered', [delivered, { receipt: 'sent' }]],
    ['silent', []],
  ] as const)(`${channel}: %s is accepted with its receipts in their order`, async (behaviour, receipts) => {
    const outcome = await send(simulator, to(behaviour));
    expect(outcome).toMatchObject({ kind: 'accepted', providerMessageId: 'sim-m1', receipts });
    const times = outcome.kind === 'accepted' ? (outcome.receipts ?? []).map(({ afterMs }) => afterMs) : [];
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(times.every((afterMs) => afterMs >= 50 && afterMs <= 200)).toBe(true);
  });

  test(`${channel}: invalid, transient and ambiguous recipients give the matching outcomes`, async () => {
    expect(await send(simulator, to('invalid'))).toMatchObject({
      kind: 'rejected_permanent',
      failure: { class: 'invalid_recipient' },
    });
    expect(await send(simulator, to('transient'), 1)).toMatchObject({ kind: 'rejected_transient' });
    expect(await send(simulator, to('transient'), 2)).toMatchObject({
      kind: 'accepted',
      receipts: [delivered],
    });
    expect(await send(simulator, to('ambiguous'), 2)).toMatchObject({ kind: 'ambiguous' });
  });

  test.each([
    '+15550000008',
    '+155500000010',
    '+4930123456',
    'invalid@example.com',
    'x@simulator.invalid',
    'token-1',
  ])(`${channel}: any other recipient, such as %s, is delivered`, async (other) => {
    expect(await send(simulator, other)).toMatchObject({ kind: 'accepted', receipts: [delivered] });
  });

  test(`${channel}: the simulator needs no settings or secrets, and its check returns valid`, async () => {
    expect(parseAccount(simulator, {}, {})).toEqual({ ok: true, config: {}, secrets: {} });
    expect(await simulator.verify({ config: {}, secrets: {} } as never, noNetwork)).toEqual({
      kind: 'valid',
    });
  });
}
