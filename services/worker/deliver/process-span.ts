import { natsAttributes, type SpanOptions } from '#core/platform/telemetry/telemetry.ts';
import type { ClaimedMessage } from '#core/store/deliveries.ts';

/** The first attempt belongs to the request's trace; later ones are traces of their own that point back. */
export function processSpan(message: ClaimedMessage): SpanOptions {
  const { traceparent } = message;
  return {
    kind: 'consumer',
    attributes: {
      ...natsAttributes('process', 'wake'),
      'despatch.channel': message.channel,
      'despatch.message_id': message.id,
      'despatch.attempt': message.attempt,
    },
    ...(traceparent === null
      ? {}
      : message.attempt === 1
        ? { parent: traceparent }
        : { root: true, links: [traceparent] }),
  };
}
