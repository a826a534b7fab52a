import { z } from 'zod';

const ManagedFields = z.object({
  manager: z.string().exactOptional(),
  operation: z.string().exactOptional(),
  subresource: z.string().exactOptional(),
  time: z.string().exactOptional(),
  fieldsV1: z.record(z.string(), z.unknown()).exactOptional(),
});

/** What every object in the cluster carries, as far as it is used here. The API server keeps it valid, so only types are checked. */
export const ObjectMeta = z.object({
  name: z.string(),
  namespace: z.string().exactOptional(),
  /** Tells an object from a later one of the same name. */
  uid: z.string(),
  /** Grows with each change of the spec, and of the spec only. */
  generation: z.int(),
  resourceVersion: z.string(),
  creationTimestamp: z.string(),
  /** Set once deletion was asked for; the object goes when its last finalizer does. */
  deletionTimestamp: z.string().exactOptional(),
  finalizers: z.array(z.string()).exactOptional(),
  labels: z.record(z.string(), z.string()).exactOptional(),
  annotations: z.record(z.string(), z.string()).exactOptional(),
  managedFields: z.array(ManagedFields).exactOptional(),
});
export type ObjectMeta = z.output<typeof ObjectMeta>;

/** The part of the metadata that a writer of an object sets. */
export type NewObjectMeta = Pick<ObjectMeta, 'name' | 'namespace' | 'labels' | 'annotations'>;
