import { LEASE_MS } from '../rig.ts';
import { healsItself, type Fault } from './fault.ts';

const RESTART_MS = 1_500;
/** Longer than the sweep leaves to a wake-up, which a worker that was stopped may still hold. */
const OVER_SWEEP_MS = 6_500;

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
    const holdMs = kind === 'api' ? random.whole(500, 4_000) : random.whole(LEASE_MS + 500, OVER_SWEEP_MS);
    return { target: service.name, holdMs, heal: () => service.signal('SIGCONT') };
  },
}));

export const PROCESS_FAULTS: readonly Fault[] = [...killed, ...ended, ...stopped];
