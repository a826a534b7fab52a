import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { LRUCache } from 'lru-cache';
import type { KubeClient } from '../kube/kube-client.ts';
import type { KubeResource } from '../kube/kube-object.ts';
import { microTime } from '../kube/kube-time.ts';
import { createTokenBucket, type Rate } from '../kube/token-bucket.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import { within } from '#core/platform/process/deadline.ts';
import { pause } from '#core/platform/process/pause.ts';
import { scrub } from '#core/platform/telemetry/scrub.ts';

/** The object of an event, as the API server sent it. */
export type EventSubject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
  };
};

export type EventRecorder = {
  /**
   * Records an event for people who look at the object. Never waits, never fails. The same reason and note for the same
   * object within ten minutes is one event with a growing count.
   * @param reason one CamelCase word, at most 128 characters.
   * @param note a sentence without secrets, cut at 1,024 bytes.
   */
  readonly record: (about: EventSubject, type: 'Normal' | 'Warning', reason: string, note: string) => void;
};

export type EventRecorderOptions = {
  readonly client: Pick<KubeClient, 'apply'>;
  readonly log: Logger;
  /** Name of the process. Default: the host name, which in a cluster is the pod. */
  readonly instance?: string;
  /** Rate of all event writes: `burst` at once, then `perSecond`. Default 50 and 5. */
  readonly rate?: Rate;
};

const EVENTS: KubeResource = {
  group: 'events.k8s.io',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
  namespaced: true,
};

/** Reporting controller and field manager. */
const CONTROLLER = 'despatch.dev/controller';
const FIELD_MANAGER = 'despatch-controller';
const WINDOW_MS = 600_000;
/** Number of distinct events that are remembered to detect repetitions. */
const REMEMBERED_MAX = 4_096;
/** Maximum number of queued events; more are dropped, since metrics serve better at such a rate. */
const WAITING_MAX = 1_000;
const NOTE_BYTES_MAX = 1_024;
const WRITE_MS = 10_000;
/** How long disposal waits for queued writes. */
const FLUSH_MS = 2_000;

type Entry = {
  readonly namespace: string;
  readonly name: string;
  /** All fields except the series are immutable once written. */
  readonly fields: object;
  readonly subject: string;
  count: number;
  lastAt: number;
};

/** Writes events one at a time in the background. An event that cannot be written is logged and dropped. */
export function createEventRecorder(options: EventRecorderOptions): EventRecorder & AsyncDisposable {
  const { client, log, instance = hostname(), rate = { burst: 50, perSecond: 5 } } = options;
  const known = new LRUCache<string, Entry>({ max: REMEMBERED_MAX });
  /** Entries with something to write; a repetition of a queued event joins its entry. */
  const waiting = new Set<Entry>();
  const end = new AbortController();
  const writes = createTokenBucket(rate);
  let writing: Promise<void> | undefined;
  let dropped = 0;

  const write = async (entry: Entry): Promise<void> => {
    const { namespace, name, fields, count, lastAt } = entry;
    const series = count === 1 ? {} : { series: { count, lastObservedTime: microTime(lastAt) } };
    try {
      // Uses apply instead of create: the same call creates the event, updates its count, and can be retried.
      await client.apply(
        EVENTS,
        { namespace, name },
        { ...fields, ...series },
        { fieldManager: FIELD_MANAGER, signal: end.signal, deadlineMs: WRITE_MS },
      );
    } catch (error) {
      log.warn({ err: error, about: entry.subject }, 'Could not write an event');
    }
  };

  const writeAll = async (): Promise<void> => {
    while (!end.signal.aborted) {
      const [entry] = waiting;
      if (entry === undefined) break;
      const waitMs = writes.take();
      if (waitMs > 0) await pause(waitMs, end.signal);
      waiting.delete(entry);
      await write(entry);
    }
    if (dropped > 0) log.warn({ dropped }, 'Dropped events: there were too many');
    dropped = 0;
    writing = undefined;
  };

  return {
    record(about, type, reason, note) {
      if (end.signal.aborted) return;
      const text = cut(scrub(note));
      const now = Date.now();
      const key = [about.metadata.uid, type, reason, text].join(' ');
      let entry = known.get(key);
      if (entry === undefined || now - entry.lastAt > WINDOW_MS) {
        entry = makeEntry(
          about,
          { type, reason, note: text, reportingInstance: instance.slice(0, 128) },
          now,
        );
        known.set(key, entry);
      } else {
        entry.count += 1;
        entry.lastAt = now;
      }
      if (!waiting.has(entry) && waiting.size >= WAITING_MAX) {
        dropped += 1;
        return;
      }
      waiting.add(entry);
      writing ??= Promise.resolve().then(writeAll);
    },
    async [Symbol.asyncDispose]() {
      if (writing !== undefined) await within(writing, FLUSH_MS, () => undefined);
      end.abort();
      await writing;
    },
  };
}

type EventText = {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly note: string;
  readonly reportingInstance: string;
};

function makeEntry({ apiVersion, kind, metadata }: EventSubject, event: EventText, now: number): Entry {
  const { name, namespace, uid, resourceVersion } = metadata;
  return {
    // The namespace in which the API server expects events about cluster-scoped objects.
    namespace: namespace ?? 'default',
    // Each part of a name between dots ends with a letter or digit, also where it is cut.
    name: `${name.slice(0, 200).replace(/[.-]+$/, '')}.${randomBytes(8).toString('hex')}`,
    subject: `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`,
    fields: {
      ...event,
      eventTime: microTime(now),
      action: 'Reconcile',
      reportingController: CONTROLLER,
      regarding: {
        apiVersion,
        kind,
        name,
        uid,
        resourceVersion,
        ...(namespace === undefined ? {} : { namespace }),
      },
    },
    count: 1,
    lastAt: now,
  };
}

/** The API server limits bytes. */
function cut(note: string): string {
  const bytes = Buffer.from(note);
  if (bytes.length <= NOTE_BYTES_MAX) return note;
  const ellipsis = '…';
  const kept = bytes.subarray(0, NOTE_BYTES_MAX - Buffer.byteLength(ellipsis)).toString();
  // A character that was cut in two decodes to U+FFFD, which has three bytes.
  return kept.replace(/\uFFFD+$/, '') + ellipsis;
}
