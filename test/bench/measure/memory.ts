import { freePort } from '../../../deploy/servers/ports.ts';
import type { MemoryReading } from '../processes/memory-probe.ts';
import { fillBacklog } from '../stack/backlog.ts';
import { messageText } from '../load/request-text.ts';
import type { BenchTenant } from '../stack/seed.ts';
import type { World } from '../stack/stack.ts';
import type { LoopCommand } from '../processes/loop-process.ts';
import { startService, type Bench, type Measured } from './bench.ts';
import type { Contestant } from './contestant.ts';
import { startHelper, type ProcessExtras } from './helper.ts';
import { ledgerOf } from './ledger.ts';
import { readMetric } from './metric.ts';
import { untilArrived, untilReached } from './until.ts';

/** Concurrent calls; the provider answers none of them until the memory has been read. */
const HELD = 4_000;
const WARM_MESSAGES = 4_000;
const NEW_TENANTS = 1_000;
/** Keeps held calls from a timeout, and their leases from running out, until the memory has been read. */
const PATIENT = {
  IN_FLIGHT_MAX: String(HELD),
  QUEUED_MAX: '20000',
  PROVIDER_DEADLINE_MS: '60000',
  LEASE_MS: '600000',
};

/** Measures the memory of a worker per message in flight, beside that of a bare call, and of worker and api per tenant in their caches. */
export async function memory(bench: Bench): Promise<Measured> {
  const { helpers, stack } = bench;
  await using world = await stack.world();
  const newTenants = await stack.addTenants(world, NEW_TENANTS);
  await helpers.provider.run('reset');
  await using worker = await startWeighed(bench, world, 'worker');
  await using api = await startWeighed(bench, world, 'api');

  await fillBacklog(world, stack.tenants, WARM_MESSAGES);
  await sendEach(api, stack.tenants, WARM_MESSAGES);
  const warmed = WARM_MESSAGES + stack.tenants.length;
  await untilArrived(bench, warmed);
  const before = { worker: await settled(worker), api: await api.weigh() };
  await sendEach(api, newTenants, warmed);
  await untilArrived(bench, warmed + NEW_TENANTS);
  const idle = await settled(worker);
  const after = { worker: idle, api: await api.weigh() };

  await helpers.provider.run('hold');
  await fillBacklog(world, stack.tenants, HELD, warmed + NEW_TENANTS);
  const inFlight = (): Promise<number> => readMetric(worker.metricsPort, 'despatch_worker_in_flight');
  // Each tenant has a limit of concurrent calls, so a few messages may have to wait.
  await untilReached('calls under way', HELD * 0.9, inFlight);
  const full = await worker.weigh();
  const held = await inFlight();
  await helpers.provider.run('release');
  const sent = warmed + NEW_TENANTS + HELD;
  await untilArrived(bench, sent);
  const { arrivals } = await helpers.provider.run('take');
  const bareCallBytes = await weighBareCalls(bench);
  const perTenant = (role: 'worker' | 'api'): number => (after[role].held - before[role].held) / NEW_TENANTS;
  return {
    figures: {
      inFlight: held,
      inFlightBytes: (full.held - idle.held) / held,
      bareCallBytes,
      inFlightResidentBytes: (full.resident - idle.resident) / held,
      workerTenantBytes: perTenant('worker'),
      apiTenantBytes: perTenant('api'),
      workerResidentBytes: before.worker.resident,
      apiResidentBytes: before.api.resident,
    },
    ledger: ledgerOf(sent, arrivals),
  };
}

/** Measures in bytes what a call that waits for its answer holds, with its connection, in a process that does nothing else. */
async function weighBareCalls({ helpers }: Bench): Promise<number> {
  const { weigh, ...probe } = await memoryProbe();
  await using loop = await startHelper<LoopCommand, number>('loop-process.ts', probe);
  const { port } = await helpers.provider.run('count');
  await loop.run({ port, messages: WARM_MESSAGES });
  const idle = await weigh();
  await helpers.provider.run('reset');
  await helpers.provider.run('hold');
  const answered = loop.run({ port, messages: HELD, connections: HELD });
  await untilReached('bare calls', HELD, async () => (await helpers.provider.run('count')).count);
  const full = await weigh();
  await helpers.provider.run('release');
  await answered;
  return (full.held - idle.held) / HELD;
}

type Weighed = Contestant & { readonly weigh: () => Promise<MemoryReading> };

async function startWeighed(bench: Bench, world: World, role: 'api' | 'worker'): Promise<Weighed> {
  const { weigh, environment, nodeArguments } = await memoryProbe();
  const service = await startService(bench, world, role, {
    nodeArguments,
    environment: { ...environment, ...(role === 'worker' ? PATIENT : {}) },
  });
  return { ...service, weigh };
}

/** Returns what makes a process answer with the memory it holds, and the function that asks it. */
async function memoryProbe(): Promise<Required<ProcessExtras> & Pick<Weighed, 'weigh'>> {
  const port = await freePort();
  return {
    nodeArguments: ['--expose-gc', '--import', './test/bench/processes/memory-probe.ts'],
    environment: { MEMORY_PORT: String(port) },
    async weigh() {
      const response = await fetch(`http://127.0.0.1:${port}`);
      return (await response.json()) as MemoryReading;
    },
  };
}

/** Reads the memory once nothing is in flight. */
async function settled(worker: Weighed): Promise<MemoryReading> {
  await untilReached(
    'idle',
    0,
    async () => -(await readMetric(worker.metricsPort, 'despatch_worker_in_flight')),
  );
  return worker.weigh();
}

async function sendEach(
  { port }: Contestant,
  tenants: readonly BenchTenant[],
  firstNumber: number,
): Promise<void> {
  for (const [i, { key }] of tenants.entries()) {
    const { to, body } = messageText(firstNumber + i);
    const response = await fetch(`http://127.0.0.1:${port}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-service-key': key },
      body: JSON.stringify({ channel: 'sms', to, body }),
    });
    await response.arrayBuffer();
    if (response.status !== 202) throw new Error(`a message was answered with ${response.status}`);
  }
}
