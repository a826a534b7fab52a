import { extendRest, type SideWork } from '#core/domain/queue/rest-beside-sends.ts';

export type SideRestDeps = {
  readonly kind: SideWork['kind'];
  readonly isSending: () => boolean;
  /** Called when a rest is over that `callWhenOver` asked about. */
  readonly onOver: () => void;
};

/** The time that work beside sends leaves to messages while they are sent. */
export type SideRest = {
  /** Returns how long the rest still lasts, in milliseconds; 0 if it is over or no messages are being sent. */
  leftMs(): number;
  /** Extends the rest after work of this duration. */
  extend(work: Pick<SideWork, 'tookMs' | 'waitedMs'>): void;
  /** Has `onOver` called once the rest is over, with all that extends it until then. */
  callWhenOver(): void;
};

export function createSideRest({ kind, isSending, onOver }: SideRestDeps): SideRest {
  let restUntil = 0;
  let timer: NodeJS.Timeout | undefined;

  function lookAgain(): void {
    timer = undefined;
    if (performance.now() < restUntil) callWhenOver();
    else onOver();
  }

  function callWhenOver(): void {
    timer ??= setTimeout(lookAgain, restUntil - performance.now()).unref();
  }

  return {
    leftMs: () => (isSending() ? Math.max(0, restUntil - performance.now()) : 0),
    extend(work) {
      restUntil = extendRest(restUntil, performance.now(), { ...work, kind, isSending: isSending() });
    },
    callWhenOver,
  };
}
