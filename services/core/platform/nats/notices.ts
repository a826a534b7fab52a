import type { Msg, NatsConnection, Subscription } from '@nats-io/transport-node';
import type { Logger } from '../telemetry/logger.ts';
import type { Nats, NoticeHandler } from './nats-types.ts';
import type { Connection } from './open-connection.ts';

export type Notices = {
  /** Subscribes again, on a new connection. */
  readonly subscribeAll: (nc: NatsConnection) => void;
  readonly publishOn: (connection: Connection) => Nats['publishNotice'];
  readonly subscribeOn: (connection: Connection) => Nats['onNotice'];
};

type Notice = {
  readonly kind: string;
  readonly handler: NoticeHandler;
  subscription: Subscription | undefined;
};

/** Creates the subscriptions to notices, which survive reconnects. @param prefix the first token of all subjects. */
export function createNotices(prefix: string, log: Logger): Notices {
  const notices = new Set<Notice>();
  const subjectOf = (kind: string): string => `${prefix}.notice.${kind}`;

  const subscribe = (nc: NatsConnection, notice: Notice): void => {
    notice.subscription = nc.subscribe(subjectOf(notice.kind), {
      callback: (error, message) => {
        if (error !== null) log.warn({ err: error, kind: notice.kind }, 'Lost a subscription to notices');
        else deliverNotice(notice.handler, message, log);
      },
    });
  };

  return {
    subscribeAll(nc) {
      for (const notice of notices) subscribe(nc, notice);
    },
    publishOn: (connection) => (kind, payload) => {
      // The client would buffer a notice until the next connection, when it is stale.
      if (connection.isConnected()) connection.clients()?.nc.publish(subjectOf(kind), payload);
    },
    subscribeOn: (connection) => (kind, handler) => {
      const notice: Notice = { kind, handler, subscription: undefined };
      notices.add(notice);
      const nc = connection.clients()?.nc;
      if (nc !== undefined && !nc.isClosed()) subscribe(nc, notice);
      return () => {
        notices.delete(notice);
        notice.subscription?.unsubscribe();
      };
    },
  };
}

function deliverNotice(handler: NoticeHandler, message: Msg, log: Logger): void {
  const kind = message.subject.slice(message.subject.lastIndexOf('.') + 1);
  try {
    handler(kind, message.string());
  } catch (error) {
    log.error({ err: error, kind }, 'A notice could not be handled');
  }
}
