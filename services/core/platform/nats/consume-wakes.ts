import type { ConsumerInfo, JetStreamClient, JsMsg } from '@nats-io/jetstream';
import type { ConsumeOptions, Nats, WakeDelivery, WakeKind } from './nats-types.ts';
import type { Logger } from '../telemetry/logger.ts';
import { backoffMs, pause } from '../process/pause.ts';
import { untilConnected, type Connection } from './open-connection.ts';
import type { WakeStream } from './wake-stream.ts';

/** Consumes wake-ups, also after the connection, the consumer or the stream was lost, until the signal is aborted. */
export function createConsumeWakes(
  connection: Connection,
  stream: WakeStream,
  log: Logger,
): Nats['consumeWakes'] {
  return (consume) => {
    const ending = AbortSignal.any([consume.signal, connection.closing]);
    const run = async (): Promise<void> => {
      for (let attempt = 0; !ending.aborted; attempt += 1) {
        const clients = connection.clients();
        if (!connection.isConnected() || clients === undefined) {
          attempt = 0;
          await untilConnected(connection, ending);
          continue;
        }
        try {
          const { consumer, isRecreated } = await stream.ensure(clients.jsm);
          if (isRecreated) {
            log.warn({ stream: stream.name }, 'The wake-up stream was lost and made anew');
            consume.onRecreated();
          }
          const pulled = await pullWakes(clients.js, consumer, consume, ending);
          if (pulled > 0) attempt = 0;
          if (!ending.aborted) log.info({ stream: stream.name }, 'The consumer ended; starting it again');
        } catch (error) {
          if (!ending.aborted) log.warn({ err: error, attempt }, 'Wake-ups cannot be consumed now');
        }
        await pause(backoffMs(attempt), ending);
      }
    };
    return { closed: run() };
  };
}

/** Passes wake-ups to `onWake` until the stream, the consumer or the connection is gone, or the signal is aborted. */
async function pullWakes(
  client: JetStreamClient,
  consumer: ConsumerInfo,
  { maxMessages, onWake }: ConsumeOptions,
  ending: AbortSignal,
): Promise<number> {
  const messages = await client.consumers.getConsumerFromInfo(consumer).consume({
    max_messages: maxMessages,
    expires: 10_000,
    // After two missed heartbeats the client checks whether the stream still exists.
    idle_heartbeat: 1_000,
    abort_on_missing_resource: true,
  });
  const stop = (): void => void messages.close();
  ending.addEventListener('abort', stop, { once: true });
  let pulled = 0;
  try {
    if (ending.aborted) stop();
    // Pull requests are sent from within this iteration: while it is paused, at most `max_messages` accumulate here.
    for await (const message of messages) {
      if (ending.aborted) break;
      pulled += 1;
      onWake(toWake(message));
    }
  } finally {
    ending.removeEventListener('abort', stop);
    stop();
  }
  return pulled;
}

function toWake(message: JsMsg): WakeDelivery {
  return {
    kind: message.subject.slice(message.subject.lastIndexOf('.') + 1) as WakeKind,
    payload: message.data,
    traceparent: message.headers?.get('traceparent') || undefined,
  };
}
