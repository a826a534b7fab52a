import type { ReceiverTrouble } from '../ledger.ts';
import type { Rig } from '../rig.ts';
import type { Fault } from './fault.ts';

const TROUBLES: readonly ReceiverTrouble[] = ['hang', 'reset', 'late', 'unavailable', 'down'];
/** Some of these delays end before the deadline of a call, some after it. */
const LATE_MS = { min: 200, max: 3_000 };
/** Time for a worker to pause an endpoint that answered 410. */
const BELIEVED_MS = 1_500;

async function behave(
  { receiver }: Rig,
  trouble: ReceiverTrouble | 'none',
  rest: { readonly lateMs?: number; readonly path?: string } = {},
): Promise<void> {
  const changed = receiver.next('changed');
  receiver.tell({ kind: 'behave', trouble, lateMs: 0, ...rest });
  await changed;
}

/** Faults of a tenant's own event receiver. */
export const RECEIVER_FAULTS: readonly Fault[] = [
  ...TROUBLES.map((trouble): Fault => ({
    name: `receiver-${trouble}`,
    async inject({ rig, random }) {
      await behave(rig, trouble, { lateMs: random.whole(LATE_MS.min, LATE_MS.max) });
      return {
        target: 'receivers',
        holdMs: random.whole(500, 4_000),
        heal: () => behave(rig, 'none'),
      };
    },
  })),
  {
    name: 'receiver-gone',
    async inject({ rig, random }) {
      const { path, id, caller } = random.pick(rig.tenants.endpoints);
      await behave(rig, 'gone', { path });
      return {
        target: path,
        holdMs: BELIEVED_MS,
        async heal() {
          await behave(rig, 'none');
          await rig.insist((client) =>
            client.call(caller, 'POST', `/v1/admin/webhook-endpoints/${id}/resume`),
          );
        },
      };
    },
  },
];
