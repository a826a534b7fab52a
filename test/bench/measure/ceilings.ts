// Throughput of the servers without HTTP, from one process that does nothing else.
import { countPlain } from '../stack/layout.ts';
import { meterOf, type Bench, type Measured } from './bench.ts';
import { storedLedger } from './ledger.ts';

export async function ceilingRows(bench: Bench): Promise<Measured> {
  const { helpers, options, stack } = bench;
  await using world = await stack.world();
  const { ownerUrl: databaseUrl, admin } = world;
  const warmed = await helpers.rows.run({ databaseUrl, forMs: options.warmMs });
  const stop = await meterOf({ bench, world, helper: { api: helpers.rows.pid } }).start();
  const begin = performance.now();
  const rows = await helpers.rows.run({ databaseUrl, forMs: options.measureMs });
  const seconds = (performance.now() - begin) / 1_000;
  const cost = (await stop())(rows);
  const { stored } = await countPlain(admin);
  return { figures: { ratePerSecond: rows / seconds }, cost, ledger: storedLedger(warmed + rows, stored, 0) };
}

export async function ceilingPublish(bench: Bench): Promise<Measured> {
  const { helpers, options, stack } = bench;
  await using world = await stack.world();
  const target = { url: stack.natsUrl, subject: `${world.database}.wake.normal` };
  await helpers.publish.run({ ...target, forMs: options.warmMs });
  const stop = await meterOf({ bench, world, helper: { api: helpers.publish.pid } }).start();
  const begin = performance.now();
  const published = await helpers.publish.run({ ...target, forMs: options.measureMs });
  const seconds = (performance.now() - begin) / 1_000;
  return { figures: { ratePerSecond: published / seconds }, cost: (await stop())(published) };
}
