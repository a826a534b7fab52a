import type { Nats } from '#core/platform/nats/nats-types.ts';
import {
  decodeNotice,
  encodeNotice,
  isNoticeKind,
  type Notice,
  type NoticeKind,
  type PublishNotice,
} from '#core/domain/tenant/notice.ts';

export type NoticeExchange = {
  readonly notify: PublishNotice;
  /** Stops listening to other processes. */
  readonly end: () => void;
};

/** @param drop Drops this process's copies; called for its own changes and those of other processes. */
export function createNoticeExchange(
  nats: Pick<Nats, 'publishNotice' | 'onNotice'>,
  drop: (kind: NoticeKind, notice: Notice) => void,
): NoticeExchange {
  const end = nats.onNotice('*', (kind, payload) => {
    const notice = decodeNotice(payload);
    if (notice !== null && isNoticeKind(kind)) drop(kind, notice);
  });
  return {
    notify(kind, notice) {
      drop(kind, notice);
      nats.publishNotice(kind, encodeNotice(notice));
    },
    end,
  };
}
