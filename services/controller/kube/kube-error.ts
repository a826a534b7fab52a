import { DependencyError, type DependencyFault } from '#core/domain/fault/dependency-error.ts';

/** The fields of a `Status` object that describe the failure. */
export type KubeStatus = {
  readonly message?: string;
  readonly reason?: string;
  readonly code?: number;
  readonly details?: {
    readonly retryAfterSeconds?: number;
    readonly causes?: readonly { readonly field?: string; readonly message?: string }[];
  };
};

/** Our own reasons, for calls that ended without a readable answer. */
type KubeFault =
  /** No connection, or it broke. It is unknown whether a write took effect. */
  | 'Network'
  /** The call's deadline passed. It is unknown whether a write took effect. */
  | 'Timeout'
  /** The caller's signal was aborted. */
  | 'Aborted'
  /** The answer or a watch line is not JSON. */
  | 'Unreadable'
  /** The answer is larger than what is read. */
  | 'TooLarge'
  /** The credentials could not be read. */
  | 'Credentials'
  /** Refused by this process, because it does not lead or no longer does. */
  | 'NotLeading';

/** Our own reason, with code 409: another object has the name of the intended one. */
const REPLACED = 'Replaced';

/** A reason of the server's or one of ours. */
type KubeReason = KubeFault | typeof REPLACED | (string & {});

/**
 * Every failed call to the API server. `reason` is the server's (`NotFound`, `AlreadyExists`, `Conflict`, `Expired`,
 * `Invalid`, `TooManyRequests`, …), a `KubeFault` or `Replaced`. The message repeats the server's text, which may name objects
 * and fields but never contains values that we sent.
 */
export class KubeError extends DependencyError {
  override readonly name = 'KubeError';
  /** HTTP status; 0 without an answer. */
  readonly code: number;
  readonly reason: KubeReason;
  /** Delay that the server asks for. */
  readonly retryAfterMs: number | undefined;
  /** The server's answer, if it was a `Status`. */
  readonly status: KubeStatus | undefined;

  constructor(
    about: {
      readonly code: number;
      readonly reason: KubeReason;
      readonly message: string;
      readonly retryAfterMs?: number | undefined;
      readonly status?: KubeStatus | undefined;
    },
    options?: ErrorOptions,
  ) {
    super('kubernetes', faultOf(about), about.message, options);
    this.code = about.code;
    this.reason = about.reason;
    this.retryAfterMs = about.retryAfterMs;
    this.status = about.status;
  }
}

/** Returns whether a call failed with this HTTP status. */
export function isKubeError(error: unknown, code: number): error is KubeError {
  return error instanceof KubeError && error.code === code;
}

/** Returns the error of a write to an object that was deleted and made anew under its name. */
export function replaced(): KubeError {
  return new KubeError({ code: 409, reason: REPLACED, message: 'The object was made anew' });
}

/** Returns whether the object that a call was meant for does not exist any more. */
export function isGone(error: unknown): boolean {
  return isKubeError(error, 404) || (isKubeError(error, 409) && error.reason === REPLACED);
}

/** Returns the error of a call that ended without a readable answer. */
export function unanswered(reason: KubeFault, message: string, options?: ErrorOptions): KubeError {
  return new KubeError({ code: 0, reason, message }, options);
}

/** Returns the error of a call that its caller aborted for this reason. */
export function aborted(cause: unknown): KubeError {
  return unanswered('Aborted', 'The call was ended', { cause });
}

/** Returns the error of a write that was not sent because the process no longer leads. */
export function notLeading(): KubeError {
  return unanswered('NotLeading', 'This process leads no longer');
}

const FAULTS: Readonly<Record<KubeFault, DependencyFault>> = {
  Network: 'unavailable',
  Timeout: 'deadline',
  Aborted: 'aborted',
  Unreadable: 'rejected',
  TooLarge: 'rejected',
  Credentials: 'refused',
  NotLeading: 'aborted',
};

function faultOf({ code, reason }: { readonly code: number; readonly reason: KubeReason }): DependencyFault {
  if (code === 0) return FAULTS[reason as KubeFault] ?? 'unavailable';
  if (code === 401 || code === 403) return 'refused';
  return code === 429 || code >= 500 ? 'unavailable' : 'rejected';
}
