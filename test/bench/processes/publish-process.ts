// Publishes to JetStream with message ids, 256 in flight at a time: measures what the wake-up stream takes.
import { randomUUID } from 'node:crypto';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { answerCommands } from '../measure/helper.ts';

export type PublishCommand = { readonly url: string; readonly subject: string; readonly forMs: number };

const IN_FLIGHT = 256;

answerCommands<PublishCommand, number>(async ({ url, subject, forMs }) => {
  const connection = await connect({ servers: url, noAsyncTraces: true });
  const client = jetstream(connection);
  const payload = `${randomUUID()} 2030-01-07 ${randomUUID()}`;
  const until = performance.now() + forMs;
  let published = 0;
  const run = async (): Promise<void> => {
    while (performance.now() < until) {
      await client.publish(subject, payload, { msgID: randomUUID() });
      published++;
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, run));
  await connection.close();
  return published;
});
