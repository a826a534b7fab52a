import type { Rig } from '../rig.ts';
import { healsItself, type Fault } from './fault.ts';

/** Empties a worker's credential cache, so that the worker depends on Vault. */
function forgetCredentials({ workers }: Rig, which: 0 | 1): string {
  workers[which]?.service.signal('SIGKILL');
  return workers[which]?.service.name ?? '';
}

export const VAULT_FAULTS: readonly Fault[] = [
  {
    name: 'vault-sealed',
    async inject({ rig, random }) {
      await rig.vault.seal();
      const worker = random.next() < 0.5 ? ` and ${forgetCredentials(rig, random.pick([0, 1]))}` : '';
      return { target: `vault${worker}`, holdMs: random.whole(500, 3_000), heal: () => rig.vault.unseal() };
    },
  },
  {
    name: 'vault-stopped',
    async inject({ rig, random }) {
      process.kill(rig.vault.pid, 'SIGSTOP');
      const worker = random.next() < 0.5 ? ` and ${forgetCredentials(rig, random.pick([0, 1]))}` : '';
      return {
        target: `vault${worker}`,
        holdMs: random.whole(500, 3_000),
        heal: () => void process.kill(rig.vault.pid, 'SIGCONT'),
      };
    },
  },
  {
    name: 'vault-restart',
    async inject({ rig: { vault } }) {
      await vault.stop();
      return { target: 'vault', holdMs: 500, heal: () => vault.restart() };
    },
  },
  {
    name: 'vault-tokens-revoked',
    async inject({ rig, random }) {
      const { status } = await rig.vault.request('PUT', 'sys/leases/revoke-prefix/auth/approle');
      if (status >= 300) throw new Error(`Vault did not revoke the tokens: ${status}`);
      return {
        target: `tokens and ${forgetCredentials(rig, random.pick([0, 1]))}`,
        holdMs: 1_000,
        heal: healsItself,
      };
    },
  },
];
