import { DependencyError, type DependencyFault } from '#core/domain/dependency-error.ts';

/** The part of a `Status` object that tells what went wrong. */
export type KubeStatus = {
  readonly message?: string;
  readonly reason?: string;
  readonly code?: number;
  readonly details?: {
    readonly retryAfterSeconds?: number;
    readonly causes?: readonly { readonly field?: string; readonly message?: string }[];
  };
};

/** Reasons of ours, for calls that ended without an answer that can be read. */
type KubeFault =
  /** No connection, or it broke. Whether a write took effect is unknown. */
  | 'Network'
  /** The call's deadline passed. Whether a write took effect is unknown. */
  | 'Timeout'
  /** The caller's signal was aborted. */
  | 'Aborted'
  /** An answer that is no JSON, or a watch line that is none. */
  | 'Unreadable'
  /** The credentials could not be read. */
  | 'Credentials'
  /** Refused by this process: it does not lead, or no longer. */
  | 'NotLeading';

/** The server's word, or one of ours. */
type KubeReason = KubeFault | (string & {});

/**
 * Every failed call to the API server. `reason` is the server's (`NotFound`, `AlreadyExists`, `Conflict`, `Expired`,
 * `Invalid`, `TooManyRequests`, …) or a `KubeFault`. The message repeats the server's text, which may name objects and
 * fields, never their values from us.
 */
export class KubeError extends DependencyError {
  override readonly name = 'KubeError';
  /** HTTP status; 0 without an answer. */
  readonly code: number;
  readonly reason: KubeReason;
  /** How long the server asks to wait. */
  readonly retryAfterMs: number | undefined;
  /** What the server said, where it was a `Status`. */
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

/** Whether a call failed with this HTTP status. */
export function isKubeError(error: unknown, code: number): error is KubeError {
  return error instanceof KubeError && error.code === code;
}

/** Of a call that ended without an answer that can be read. */
export function unanswered(reason: KubeFault, message: string, options?: ErrorOptions): KubeError {
  return new KubeError({ code: 0, reason, message }, options);
}

/** Of a call that its caller ended, for this reason. */
export function aborted(cause: unknown): KubeError {
  return unanswered('Aborted', 'The call was ended', { cause });
}

/** Of a write that was not sent, as the process leads no longer. */
export function notLeading(): KubeError {
  return unanswered('NotLeading', 'This process leads no longer');
}

const FAULTS: Readonly<Record<KubeFault, DependencyFault>> = {
  Network: 'unavailable',
  Timeout: 'deadline',
  Aborted: 'aborted',
  Unreadable: 'rejected',
  Credentials: 'refused',
  NotLeading: 'aborted',
};

function faultOf({ code, reason }: { readonly code: number; readonly reason: KubeReason }): DependencyFault {
  if (code === 0) return FAULTS[reason as KubeFault] ?? 'unavailable';
  if (code === 401 || code === 403) return 'refused';
  return code === 429 || code >= 500 ? 'unavailable' : 'rejected';
}
