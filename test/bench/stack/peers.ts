// The libraries that the worker is compared with: their schemas, a backlog in each, and the count of completed jobs.
import { makeWorkerUtils } from 'graphile-worker';
import { PgBoss } from 'pg-boss';
import { messageText } from '../load/request-text.ts';
import { countPlain, insertPlain } from './layout.ts';
import type { World } from './stack.ts';

export type Peer = {
  /** Name of a script in the folder `processes`. */
  readonly api: string;
  readonly worker: string;
  readonly environment: Readonly<Record<string, string>>;
  prepare(world: World): Promise<void>;
  fill(world: World, messages: number): Promise<void>;
  count(world: World): Promise<{ readonly stored: number; readonly finished: number }>;
};

const AT_ONCE = 1_000;

export const graphile: Peer = {
  api: 'graphile-api-process.ts',
  worker: 'graphile-worker-process.ts',
  environment: {},
  async prepare({ ownerUrl }) {
    const utils = await makeWorkerUtils({ connectionString: ownerUrl });
    await utils.migrate();
    await utils.release();
  },
  fill: ({ admin }, messages) =>
    inChunks(messages, async (rows) => {
      const ids = await insertPlain(admin, rows);
      const payloads = rows.map(({ to, body }, i) => JSON.stringify({ id: ids[i], to, body }));
      await admin`select count(*) from unnest(${payloads}::text[]) p, graphile_worker.add_job('send', p::json)`;
    }),
  count: ({ admin }) => countPlain(admin),
};

/** Stores no status beside the job, so it does less than the others; it is done when no job is left. */
export const graphileBare: Peer = {
  ...graphile,
  environment: { STATUS: 'none' },
  async count({ admin }) {
    const { stored } = await countPlain(admin);
    const [row] = await admin<{ n: number }[]>`select count(*) as n from graphile_worker.jobs`;
    return { stored, finished: stored - (row?.n ?? 0) };
  },
};

export const boss: Peer = {
  api: 'boss-api-process.ts',
  worker: 'boss-worker-process.ts',
  environment: {},
  prepare: ({ ownerUrl }) => withBoss(ownerUrl, (one) => one.createQueue('send')),
  fill: ({ ownerUrl }, messages) =>
    withBoss(ownerUrl, (one) =>
      inChunks(messages, async (rows) => {
        await one.insert(
          'send',
          rows.map((data) => ({ data })),
        );
      }),
    ),
  async count({ admin }) {
    const [row] = await admin<{ stored: number; finished: number }[]>`
      select count(*) as stored, count(*) filter (where state = 'completed') as finished
      from pgboss.job where name = 'send'`;
    return { stored: row?.stored ?? 0, finished: row?.finished ?? 0 };
  },
};

/** Follows its manual's advice for short delays: new jobs are notified, not only found by the next poll. */
export const bossNotified: Peer = {
  ...boss,
  environment: { NOTIFY: 'on' },
  prepare: ({ ownerUrl }) => withBoss(ownerUrl, (one) => one.createQueue('send', { notify: true })),
};

async function withBoss(connectionString: string, work: (one: PgBoss) => Promise<void>): Promise<void> {
  const one = new PgBoss({ connectionString, supervise: false });
  await one.start();
  try {
    await work(one);
  } finally {
    await one.stop({ graceful: false });
  }
}

async function inChunks(
  messages: number,
  write: (rows: readonly ReturnType<typeof messageText>[]) => Promise<void>,
): Promise<void> {
  for (let from = 0; from < messages; from += AT_ONCE) {
    const length = Math.min(AT_ONCE, messages - from);
    await write(Array.from({ length }, (_, i) => messageText(from + i)));
  }
}
