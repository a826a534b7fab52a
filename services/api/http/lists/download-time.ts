import { Deadline } from '#core/platform/process/deadline.ts';

export type DownloadLimits = {
  /** For the whole download. */
  readonly downloadMsMax: number;
  /** Until the client has taken the next part. */
  readonly downloadPartMsMax: number;
};

export const DEFAULT_DOWNLOAD_LIMITS: DownloadLimits = {
  downloadMsMax: 15 * 60_000,
  downloadPartMsMax: 60_000,
};

export type DownloadTime = Disposable & {
  /** Aborts when one of the two times is over, or when the client has gone. */
  readonly signal: AbortSignal;
  /** Restarts the time for a part, after the client has taken one. */
  readonly partTaken: () => void;
};

/** Limits the time of a download, so that a client that reads slowly or not at all does not hold its memory and its slot. */
export function createDownloadTime(
  gone: AbortSignal,
  { downloadMsMax, downloadPartMsMax }: DownloadLimits,
): DownloadTime {
  const whole = new Deadline(downloadMsMax, { parent: gone });
  const part = new Deadline(downloadPartMsMax, { parent: whole.signal });
  return {
    signal: part.signal,
    partTaken: () => part.restart(),
    [Symbol.dispose]() {
      part[Symbol.dispose]();
      whole[Symbol.dispose]();
    },
  };
}
