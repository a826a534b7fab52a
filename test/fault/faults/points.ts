import { DELIVERY_LEASE_MS, LEASE_MS, type Node } from '../node.ts';
import type { Rig } from '../rig.ts';
import type { Fault, FaultContext } from './fault.ts';

type Held = { readonly reached: Promise<void>; readonly release: (how: 'pass' | 'cut') => void };

type Point = {
  readonly name: string;
  readonly kind: 'api' | 'worker';
  readonly hold: (rig: Rig, node: Node) => Held;
  /** Lease of what the worker holds at this point. Default: the lease of messages. */
  readonly leaseMs?: number;
};

/** A busy machine may take this long to reach the point. */
const MOMENT_MS_MAX = 15_000;
const RESTART_MS = 1_000;
const OVER_LEASE_MS = 1_000;
/** Long enough for every tenant to have calls in flight, and short compared with a lease. */
const OPEN_CALLS_MS = 500;

const at = (connection: 'database' | 'broker', moment: string) => (_rig: Rig, node: Node) =>
  node[connection].hold(moment);

const BYTES_LEFT: Point = { name: 'bytes-left', kind: 'worker', hold: holdCall };

/**
 * Steps of a message, its receipts and its events, detected in the traffic of the real processes, which contain no hooks for it.
 */
const POINTS: readonly Point[] = [
  { name: 'before-accept', kind: 'api', hold: at('database', 'accept.before') },
  { name: 'accept-committed', kind: 'api', hold: at('database', 'accept.after') },
  { name: 'before-wake-up', kind: 'api', hold: at('broker', 'publish.before') },
  { name: 'before-claim', kind: 'worker', hold: at('database', 'claim.before') },
  // Held before the worker receives the result of its claim: the last moment before it calls the providers.
  { name: 'before-call', kind: 'worker', hold: at('database', 'claim.after') },
  BYTES_LEFT,
  { name: 'before-record', kind: 'worker', hold: at('database', 'complete.before') },
  { name: 'recorded', kind: 'worker', hold: at('database', 'complete.after') },
  { name: 'before-receipt', kind: 'api', hold: at('database', 'store_receipt_calls.before') },
  { name: 'receipt-stored', kind: 'api', hold: at('database', 'store_receipt_calls.after') },
  { name: 'before-receipt-read', kind: 'worker', hold: at('database', 'settle_receipt_calls.before') },
  { name: 'receipt-read', kind: 'worker', hold: at('database', 'settle_receipt_calls.after') },
  { name: 'before-receipt-applied', kind: 'worker', hold: at('database', 'record_receipts.before') },
  { name: 'before-silent-moved', kind: 'worker', hold: at('database', 'fail_over_silent.before') },
  { name: 'before-matched', kind: 'worker', hold: at('database', 'append_matches.before') },
  {
    name: 'matched',
    kind: 'worker',
    hold: at('database', 'append_matches.after'),
    leaseMs: DELIVERY_LEASE_MS,
  },
  {
    name: 'deliveries-claimed',
    kind: 'worker',
    hold: at('database', 'claim_deliveries.after'),
    leaseMs: DELIVERY_LEASE_MS,
  },
  {
    name: 'before-delivered',
    kind: 'worker',
    hold: at('database', 'complete_deliveries.before'),
    leaseMs: DELIVERY_LEASE_MS,
  },
  { name: 'delivered', kind: 'worker', hold: at('database', 'complete_deliveries.after') },
];

/** Holds a call after the provider received the whole request and before it answers. */
function holdCall({ providers }: Rig, { service }: Node): Held {
  const reached = providers.next('held').then(() => {});
  providers.tell({ kind: 'hold', worker: service.name });
  return { reached, release: () => providers.tell({ kind: 'release' }) };
}

async function hold(
  { rig, random }: FaultContext,
  point: Point,
): Promise<{ node: Node; held: Held } | undefined> {
  const drawn = random.pick(rig[`${point.kind}s`]);
  // A process that is still starting does not reach any point.
  const node = (await drawn.service.isReady()) ? drawn : otherThan(drawn, rig[`${point.kind}s`]);
  const held = point.hold(rig, node);
  if (await reachedSoon(held)) return { node, held };
  held.release('pass');
  return undefined;
}

function reachedSoon({ reached }: Held): Promise<boolean> {
  return Promise.race([
    reached.then(() => true),
    new Promise<false>((resolve) => setTimeout(() => resolve(false), MOMENT_MS_MAX)),
  ]);
}

function otherThan(drawn: Node, nodes: readonly Node[]): Node {
  return nodes.find((node) => node !== drawn) ?? drawn;
}

const MISSED = { notRun: 'the moment did not come' };

const killed: Fault[] = POINTS.map((point) => ({
  name: `kill-${point.kind}-${point.name}`,
  async inject(context) {
    const found = await hold(context, point);
    if (found === undefined) return MISSED;
    const { node, held } = found;
    node.service.signal('SIGKILL');
    // Bytes that left the process before it was killed may or may not arrive.
    held.release(context.random.pick(['pass', 'cut']));
    return { target: node.service.name, holdMs: RESTART_MS, heal: () => {} };
  },
}));

const stopped: Fault[] = POINTS.filter(({ name }) => name !== 'before-wake-up').map((point) => ({
  name: `stop-${point.kind}-${point.name}`,
  async inject(context) {
    const found = await hold(context, point);
    if (found === undefined) return MISSED;
    const { node, held } = found;
    node.service.signal('SIGSTOP');
    held.release('pass');
    return {
      target: node.service.name,
      holdMs:
        point.kind === 'worker'
          ? (point.leaseMs ?? LEASE_MS) + OVER_LEASE_MS
          : context.random.whole(500, 4_000),
      heal: () => node.service.signal('SIGCONT'),
    };
  },
}));

const cut: Fault[] = POINTS.filter(({ name }) => name !== 'bytes-left').map((point) => ({
  name: `cut-${point.kind}-${point.name}`,
  async inject(context) {
    const found = await hold(context, point);
    if (found === undefined) return MISSED;
    found.held.release('cut');
    return { target: found.node.service.name, holdMs: 300, heal: () => {} };
  },
}));

/**
 * Kills a worker with open calls, and drops the answers of a claim by another worker of the same name and of its repetition from the
 * lanes. That worker then searches these lanes for its own claim and must not take over messages that the killed worker still holds.
 */
const restarted: Fault = {
  name: 'restart-worker-claim-lost',
  async inject(context) {
    const found = await hold(context, BYTES_LEFT);
    if (found === undefined) return MISSED;
    const { node, held } = found;
    await new Promise((resolve) => setTimeout(resolve, OPEN_CALLS_MS));
    const namesake = otherThan(node, context.rig.workers);
    const answer = namesake.database.hold('claim.after');
    const isReached = await reachedSoon(answer);
    node.service.signal('SIGKILL');
    const repeated = namesake.database.hold('claim_due.after');
    answer.release(isReached ? 'cut' : 'pass');
    held.release('pass');
    const isRepeated = isReached && (await reachedSoon(repeated));
    repeated.release(isRepeated ? 'cut' : 'pass');
    if (!isRepeated) return MISSED;
    return { target: `${node.service.name}, ${namesake.service.name}`, holdMs: RESTART_MS, heal: () => {} };
  },
};

export const POINT_FAULTS: readonly Fault[] = [...killed, ...stopped, ...cut, restarted];
