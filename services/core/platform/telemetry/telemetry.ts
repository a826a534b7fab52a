import {
  context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Link,
  type Span as OtelSpan,
  type SpanContext,
} from '@opentelemetry/api';
import type { Sampler } from '@opentelemetry/sdk-trace';
import type { LogFields } from './logger.ts';

export type TelemetryOptions = {
  /** OTLP/HTTP collector without the `/v1/traces`; absent: no tracing. */
  readonly endpoint: string | undefined;
  readonly serviceName: string;
  /**
   * Share of requests, and of traces that other work begins, that are recorded, 0 to 1. What continues a trace keeps the decision of
   * its parent.
   */
  readonly sampleRatio: number;
};

export type SpanOptions = {
  readonly kind?: 'internal' | 'server' | 'client' | 'producer' | 'consumer';
  /** Never a body, an address or a secret. */
  readonly attributes?: Readonly<Record<string, string | number | boolean>>;
  /** W3C traceparent of the cause of this span; default: the current span. Malformed ones are ignored. */
  readonly parent?: string | undefined;
  /** Begins a new trace even inside another span. */
  readonly root?: boolean;
  /** Traceparents of spans that are related but no parent. */
  readonly links?: readonly string[];
};

export type Span = {
  /** Sent along with calls; undefined while tracing is off. */
  readonly traceparent: string | undefined;
  readonly set: (attributes: Readonly<Record<string, string | number | boolean>>) => void;
  /** Marks the span as failed with a bounded word, for example `http_503`. */
  readonly fail: (reason: string) => void;
  /** Runs the work with this span as the current one, also across its promises and callbacks. */
  readonly run: <T>(work: () => T) => T;
  readonly end: () => void;
};

const TRACER = 'despatch';
/** Timeout of an export with its retries; also the longest time that a stopping service waits for the collector. */
const EXPORT_TIMEOUT_MS = 2_000;

let isOn = false;

/** Starts tracing. Without an endpoint tracing is off and costs next to nothing. Disposal sends the remaining spans. */
export async function startTelemetry({
  endpoint,
  serviceName,
  sampleRatio,
}: TelemetryOptions): Promise<AsyncDisposable> {
  if (endpoint === undefined) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  // Imported dynamically: these modules take longer to load than the rest of a service.
  const [{ NodeSDK }, { OTLPTraceExporter }, { ParentBasedSampler, SamplingDecision }] = await Promise.all([
    import('@opentelemetry/sdk-node'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/sdk-trace'),
  ]);
  // Not by the trace's id, which a caller chooses.
  const atRandom: Sampler = {
    shouldSample: () => ({
      decision:
        Math.random() < sampleRatio ? SamplingDecision.RECORD_AND_SAMPLED : SamplingDecision.NOT_RECORD,
    }),
    toString: () => `AtRandom(${sampleRatio})`,
  };
  const byParent = new ParentBasedSampler({ root: atRandom });
  /** A request's traceparent may come from anyone, so it decides nothing; what a worker continues was stored by an api. */
  const sampler: Sampler = {
    shouldSample: (above, traceId, name, kind, ...rest) =>
      (kind === SpanKind.SERVER ? atRandom : byParent).shouldSample(above, traceId, name, kind, ...rest),
    toString: () => `RequestsAtRandom(${byParent.toString()})`,
  };
  const sdk = new NodeSDK({
    serviceName,
    traceExporter: new OTLPTraceExporter({ url: `${endpoint}/v1/traces`, timeoutMillis: EXPORT_TIMEOUT_MS }),
    sampler,
    // Metrics are scraped, and logs are written to standard output.
    metricReaders: [],
    logRecordProcessors: [],
    instrumentations: [],
  });
  sdk.start();
  isOn = true;
  return {
    async [Symbol.asyncDispose]() {
      isOn = false;
      // An unavailable collector must not make the shutdown of a service fail.
      await sdk.shutdown().catch(() => undefined);
      trace.disable();
      context.disable();
    },
  };
}

/** Begins a span for work that ends elsewhere, such as a request that hooks begin and end. The caller must call `end`. */
export function beginSpan(name: string, options: SpanOptions = {}): Span {
  if (!isOn) return NO_SPAN;
  const above = parentContext(options);
  const span = trace.getTracer(TRACER).startSpan(name, spanOptions(options), above);
  return wrap(span, trace.setSpan(above, span));
}

/** Runs the work inside a span that ends with it; an error of the work marks the span as failed and is rethrown. */
export function withSpan<T>(name: string, options: SpanOptions, work: (span: Span) => T): T {
  if (!isOn) return work(NO_SPAN);
  const span = beginSpan(name, options);
  let result: T;
  try {
    result = span.run(() => work(span));
  } catch (error) {
    span.fail(errorName(error));
    span.end();
    throw error;
  }
  if (!(result instanceof Promise)) {
    span.end();
    return result;
  }
  return result
    .catch((error: unknown) => {
      span.fail(errorName(error));
      throw error;
    })
    .finally(span.end) as T;
}

/** Returns the current trace's ids, for log lines. */
export function traceFields(): LogFields {
  if (!isOn) return NO_FIELDS;
  const current = trace.getSpanContext(context.active());
  return current === undefined ? NO_FIELDS : { traceId: current.traceId, spanId: current.spanId };
}

/** Returns the attributes of a NATS hop by OpenTelemetry's messaging conventions, which are still in development. */
export function natsAttributes(operation: 'send' | 'process', destination: string): Record<string, string> {
  return {
    'messaging.system': 'nats',
    'messaging.operation.type': operation,
    'messaging.destination.name': destination,
  };
}

const NO_FIELDS: LogFields = {};

const NO_SPAN: Span = {
  traceparent: undefined,
  set: () => undefined,
  fail: () => undefined,
  run: (work) => work(),
  end: () => undefined,
};

const KINDS = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
};

function spanOptions({ kind = 'internal', attributes, links = [], root = false }: SpanOptions) {
  return {
    kind: KINDS[kind],
    root,
    ...(attributes === undefined ? {} : { attributes: attributes as Attributes }),
    links: links.flatMap((text): Link[] => {
      const linked = parseTraceparent(text);
      return linked === null ? [] : [{ context: linked }];
    }),
  };
}

function parentContext({ parent }: SpanOptions): Context {
  const remote = parent === undefined ? null : parseTraceparent(parent);
  return remote === null ? context.active() : trace.setSpanContext(ROOT_CONTEXT, remote);
}

function wrap(span: OtelSpan, inside: Context): Span {
  return {
    traceparent: formatTraceparent(span.spanContext()),
    set: (attributes) => void span.setAttributes(attributes),
    fail: (reason) => {
      span.setAttribute('error.type', reason);
      span.setStatus({ code: SpanStatusCode.ERROR });
    },
    run: (work) => context.with(inside, work),
    end: () => span.end(),
  };
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;

function parseTraceparent(text: string): SpanContext | null {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(text) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return null;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
}

function formatTraceparent({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-0${traceFlags & 1}`;
}

/** The text of an error may contain anything; its name is bounded. */
function errorName(error: unknown): string {
  return error instanceof Error ? error.name : 'unknown';
}
