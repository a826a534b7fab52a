import { z } from 'zod';
import type { Channel } from '#core/domain/channel.ts';
import { defineProvider } from '../provider.ts';
import { behaviourOfAddress, behaviourOfNumber, behaviourOfWord, type Behaviour } from '../behaviour.ts';
import { simulatedOutcome } from './outcomes.ts';

/** One simulator per channel: no network, no credential, and an outcome that the recipient chooses. */
export default [
  simulator('sms', 'SMS simulator', behaviourOfNumber),
  simulator('email', 'Email simulator', behaviourOfAddress),
  simulator('push', 'Push simulator', behaviourOfWord),
  simulator('whatsapp', 'WhatsApp simulator', behaviourOfNumber),
];

function simulator<C extends Channel>(channel: C, name: string, behaviourOf: (to: string) => Behaviour) {
  return defineProvider({
    id: `simulator-${channel}`,
    channel,
    name,
    dedupe: 'none',
    receipts: 'simulated',
    bodyCharactersMax: null,
    config: z.object({}).meta({ description: 'A simulator has no settings.' }),
    secrets: z.object({}).meta({ description: 'A simulator needs no secret.' }),
    secretRoute: {},
    send: async (message) => simulatedOutcome(behaviourOf(message.to), message.id, message.attempt),
    verify: async () => ({ kind: 'valid' }),
  });
}
