import { z } from 'zod';

const ManagedFields = z.object({
  manager: z.string().exactOptional(),
  operation: z.string().exactOptional(),
  subresource: z.string().exactOptional(),
  time: z.string().exactOptional(),
  fieldsV1: z.record(z.string(), z.unknown()).exactOptional(),
});

/** The metadata fields of an object that are used here. The API server validates them, so only their types are checked. */
export const ObjectMeta = z.object({
  name: z.string(),
  namespace: z.string().exactOptional(),
  /** Distinguishes an object from a later one with the same name. */
  uid: z.string(),
  /** Incremented by each change of the spec, and only of the spec. */
  generation: z.int(),
  resourceVersion: z.string(),
  creationTimestamp: z.string(),
  /** Set when deletion was requested; the object disappears with its last finalizer. */
  deletionTimestamp: z.string().exactOptional(),
  finalizers: z.array(z.string()).exactOptional(),
  labels: z.record(z.string(), z.string()).exactOptional(),
  annotations: z.record(z.string(), z.string()).exactOptional(),
  managedFields: z.array(ManagedFields).exactOptional(),
});
export type ObjectMeta = z.output<typeof ObjectMeta>;

/** The metadata that the writer of an object sets. */
export type NewObjectMeta = Pick<ObjectMeta, 'name' | 'namespace' | 'labels' | 'annotations'>;
