/** External services that the processes need for all of their work. */
export type Dependency = 'postgres' | 'nats' | 'vault' | 'kubernetes' | 'oidc' | 'dns';

/**
 * Why a call to a dependency failed.
 * - `deadline`: no answer in time. Whether the request took effect is unknown.
 * - `unavailable`: no connection, a broken one, or an answer that asks to retry later. A later try may succeed.
 * - `refused`: the dependency denies access or does not know this process. An operator must fix that; a later try may succeed.
 * - `rejected`: the dependency answered that the request cannot be fulfilled. The same call fails again.
 * - `aborted`: this process aborted the call, or did not begin it.
 */
export type DependencyFault = 'deadline' | 'unavailable' | 'refused' | 'rejected' | 'aborted';

/**
 * A failed call to a dependency. Adapters with more details use a subclass. Errors of the database driver keep their own class;
 * `databaseFaultOf` classifies them.
 */
export class DependencyError extends Error {
  override readonly name: string = 'DependencyError';
  readonly dependency: Dependency;
  readonly fault: DependencyFault;

  constructor(dependency: Dependency, fault: DependencyFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.dependency = dependency;
    this.fault = fault;
  }
}

/** Whether a call ended without an answer, so that it says nothing about the request itself. */
export function isAway(error: unknown): error is DependencyError {
  return error instanceof DependencyError && (error.fault === 'deadline' || error.fault === 'unavailable');
}
