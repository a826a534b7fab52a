/**
 * The content of a change notice about an endpoint. `due`: a delivery is due; `test`: a person waits for a test call; `settings`:
 * which events it gets, or whether it is called, has changed; `secrets`: its URL or its secrets have changed.
 */
export const ENDPOINT_CHANGES = ['due', 'test', 'settings', 'secrets'] as const;
export type ChangeOfEndpoint = (typeof ENDPOINT_CHANGES)[number];

/** Returns the change that a notice names; `secrets`, which covers every change, if the notice names no known one. */
export function changeOfEndpoint(said: unknown): ChangeOfEndpoint {
  return ENDPOINT_CHANGES.find((change) => change === said) ?? 'secrets';
}
