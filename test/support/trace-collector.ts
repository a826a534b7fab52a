import { startStandIn } from '#providers/stand-in.ts';

export type CollectedSpan = {
  readonly service: string;
  readonly name: string;
  /** The OTLP numbers: 2 server, 3 client, 4 producer, 5 consumer. */
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
};

export type TraceCollector = AsyncDisposable & {
  readonly origin: string;
  readonly spans: () => CollectedSpan[];
  /** Returns every export as it was sent. */
  readonly bodies: () => string[];
};

type Export = {
  readonly resourceSpans?: readonly {
    readonly resource: {
      readonly attributes: readonly {
        readonly key: string;
        readonly value: { readonly stringValue?: string };
      }[];
    };
    readonly scopeSpans: readonly { readonly spans: readonly Omit<CollectedSpan, 'service'>[] }[];
  }[];
};

/** Starts an OTLP collector on loopback that keeps everything it receives. */
export async function startTraceCollector(): Promise<TraceCollector> {
  const standIn = await startStandIn(
    ({ path }) => (path === '/v1/traces' ? { status: 200, body: {} } : undefined),
    { keep: 10_000 },
  );
  return {
    origin: standIn.origin,
    spans: () => standIn.received.flatMap(({ body }) => spansOf(JSON.parse(body) as Export)),
    bodies: () => standIn.received.map(({ body }) => body),
    [Symbol.asyncDispose]: () => standIn[Symbol.asyncDispose](),
  };
}

function spansOf({ resourceSpans = [] }: Export): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const name = resource.attributes.find(({ key }) => key === 'service.name');
    const service = name?.value.stringValue ?? '';
    return scopeSpans.flatMap(({ spans }) => spans.map((span) => ({ ...span, service })));
  });
}
