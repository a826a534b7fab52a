import { createSharedSlots, type SharedSlots } from '../http/admission/shared-slots.ts';

/** Concurrent imports of this process: one per tenant. A waiting import holds its file in memory, which is reserved. */
const IMPORT_SLOTS = { slots: 2, waitingPerOwnerMax: 1, waitingMax: 32, waitMsMax: 20_000 };
/** Concurrent exports of this process: one per tenant. Each holds some rows in memory until its client has read them. */
const EXPORT_SLOTS = {
  slots: 32,
  heldPerOwnerMax: 1,
  waitingPerOwnerMax: 1,
  waitingMax: 32,
  waitMsMax: 20_000,
};
/** Concurrent reads of exports, so that these leave most of the connections for reads to others. */
const EXPORT_READ_SLOTS = {
  slots: 2,
  waitingPerOwnerMax: 1,
  waitingMax: EXPORT_SLOTS.slots,
  waitMsMax: 20_000,
};

/** Slots for uploaded and downloaded files, and for the reads of downloads. */
export type FileSlots = {
  readonly imports: SharedSlots;
  readonly exports: SharedSlots;
  readonly exportReads: SharedSlots;
};

export function createFileSlots(): FileSlots {
  return {
    imports: createSharedSlots(IMPORT_SLOTS),
    exports: createSharedSlots(EXPORT_SLOTS),
    exportReads: createSharedSlots(EXPORT_READ_SLOTS),
  };
}
