import { LEASE_MS } from '../node.ts';
import { healsItself, type Fault } from './fault.ts';

const RESTART_MS = 1_500;
/** Longer than the delay after which the sweep takes messages whose wake-ups a stopped worker holds. */
const OVER_SWEEP_MS = 7_500;

const KINDS = ['api', 'worker'] as const;

const killed: Fault[] = KINDS.map((kind) => ({
  name: `kill-${kind}`,
  async inject({ rig, random }) {
    const { service } = random.pick(rig[`${kind}s`]);
    service.signal('SIGKILL');
    return { target: service.name, holdMs: RESTART_MS, heal: healsItself };
  },
}));

const ended: Fault[] = KINDS.map((kind) => ({
  name: `end-${kind}`,
  async inject({ rig, random }) {
    const { service } = random.pick(rig[`${kind}s`]);
    service.signal('SIGTERM');
    return { target: service.name, holdMs: RESTART_MS, heal: healsItself };
  },
}));

const stopped: Fault[] = KINDS.map((kind) => ({
  name: `stop-${kind}`,
  async inject({ rig, random }) {
    const { service } = random.pick(rig[`${kind}s`]);
    service.signal('SIGSTOP');
    const holdMs = kind === 'api' ? random.whole(500, 4_000) : random.whole(LEASE_MS + 500, LEASE_MS + 2_000);
    return { target: service.name, holdMs, heal: () => service.signal('SIGCONT') };
  },
}));

const stoppedOverSweep: Fault = {
  name: 'stop-worker-over-sweep',
  async inject({ rig, random }) {
    const { service } = random.pick(rig.workers);
    service.signal('SIGSTOP');
    return { target: service.name, holdMs: OVER_SWEEP_MS, heal: () => service.signal('SIGCONT') };
  },
};

export const PROCESS_FAULTS: readonly Fault[] = [...killed, ...ended, ...stopped, stoppedOverSweep];
