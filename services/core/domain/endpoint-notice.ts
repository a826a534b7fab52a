/**
 * What a change notice about an endpoint tells. `due`: something is to be delivered; `test`: somebody waits for a call that tries
 * it out; `settings`: what it is told, or whether it is called; `secrets`: where it is called, or with what.
 */
export const ENDPOINT_CHANGES = ['due', 'test', 'settings', 'secrets'] as const;
export type ChangeOfEndpoint = (typeof ENDPOINT_CHANGES)[number];

/** What a notice says has changed; all of it, where it says nothing that is known here. */
export function changeOfEndpoint(said: unknown): ChangeOfEndpoint {
  return ENDPOINT_CHANGES.find((change) => change === said) ?? 'secrets';
}
