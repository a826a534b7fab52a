import { headers } from '@nats-io/transport-node';
import type { Nats } from './nats-types.ts';
import type { Connection } from './open-connection.ts';

const PUBLISH_TIMEOUT_MS = 2_000;

/** @param prefix the first token of all subjects. */
export function createPublishWakes(connection: Connection, prefix: string): Nats['publishWakes'] {
  return async (wakes) => {
    const js = connection.clients()?.js;
    if (js === undefined || !connection.isConnected()) return { failed: wakes.map((wake) => wake.id) };
    const failed: string[] = [];
    await Promise.all(
      wakes.map(async (wake) => {
        try {
          await js.publish(`${prefix}.wake.${wake.kind}`, wake.payload, {
            msgID: wake.id,
            timeout: PUBLISH_TIMEOUT_MS,
            ...(wake.traceparent === undefined ? {} : { headers: traceHeaders(wake.traceparent) }),
          });
        } catch {
          // The caller keeps the failed ids; thousands of log lines in an outage would add nothing to the gauge.
          failed.push(wake.id);
        }
      }),
    );
    return { failed };
  };
}

function traceHeaders(traceparent: string) {
  const carrier = headers();
  carrier.set('traceparent', traceparent);
  return carrier;
}
