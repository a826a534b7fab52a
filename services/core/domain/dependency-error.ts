/** What the processes call and cannot do all of their work without. */
export type Dependency = 'postgres' | 'nats' | 'vault' | 'kubernetes' | 'oidc' | 'dns';

/**
 * Why a call to a dependency failed.
 * - `deadline`: no answer in time. Whether what was asked for took effect is unknown.
 * - `unavailable`: no connection, a broken one, or an answer that says: not now. A later try may succeed.
 * - `refused`: it does not let us, or does not know us. An operator fixes that, and a later try may succeed.
 * - `rejected`: it answered, and what was asked for cannot be had. The same call fails again.
 * - `aborted`: this process ended the call, or did not begin it.
 */
export type DependencyFault = 'deadline' | 'unavailable' | 'refused' | 'rejected' | 'aborted';

/**
 * A call to a dependency that failed. Adapters that know more say it in a class of their own below this one; errors of the
 * database's driver stay its own, and `databaseFaultOf` reads them.
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

/** Whether a call ended without an answer, so that nothing is known against what was asked for. */
export function isAway(error: unknown): error is DependencyError {
  return error instanceof DependencyError && (error.fault === 'deadline' || error.fault === 'unavailable');
}
