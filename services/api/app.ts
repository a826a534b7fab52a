import type { KeyObject } from 'node:crypto';
import fastify, { type FastifyInstance } from 'fastify';
import { serializerCompiler } from 'fastify-type-provider-zod';
import { UNSUBSCRIBE_TOKEN_MAX } from '#core/domain/recipient/unsubscribe-token.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import type { Authenticate, Readmit } from './auth/auth.ts';
import { installHomePage } from './docs/home-page.ts';
import { admitRequests, readmitRequests } from './http/admission/admit-requests.ts';
import { boundAnswers } from './http/admission/bound-answers.ts';
import {
  DEFAULT_HTTP_LIMITS,
  serverFactory,
  shedOverload,
  type HttpLimits,
  type LatestRequests,
} from './http/admission/http-limits.ts';
import { leaveBodies } from './http/admission/leave-bodies.ts';
import { createLingering } from './http/admission/lingering.ts';
import { createMemoryBudget } from './http/admission/memory-budget.ts';
import { createSlowBodies } from './http/admission/slow-bodies.ts';
import { answerFaults, refuseUnknown } from './http/answer-faults.ts';
import { answerParserError, sendError, toAppError } from './http/errors.ts';
import type { HttpMetrics } from './http/http-metrics.ts';
import { BODY_BYTES_MAX, readBodies } from './http/input/read-bodies.ts';
import { createBodyReader } from './http/input/read-body.ts';
import { inputCompiler } from './http/input/read-input.ts';
import { observeRequests } from './http/observe-requests.ts';
import { addRequestFields } from './http/routes/fastify-fields.ts';
import { knownMethods } from './http/routes/known-methods.ts';
import { requestIdOf } from './http/routes/request-id.ts';
import type { RouteModule } from './http/routes/route.ts';
import { standardHeaders } from './http/standard-headers.ts';
import { installDocs } from './openapi/openapi.ts';

/** The length of the longest path parameter, an unsubscribe token. */
const PATH_PARAMETER_MAX = UNSUBSCRIBE_TOKEN_MAX;

export type AppDeps = {
  readonly authenticate: Authenticate;
  readonly readmit: Readmit;
  readonly log: Logger;
  readonly metrics: HttpMetrics;
  /** HMAC key of idempotency fingerprints. */
  readonly fingerprintKey: KeyObject;
  /** The proxies whose forwarded headers are trusted: fastify's `trustProxy`. */
  readonly trustProxy: boolean | readonly string[];
  readonly limits?: HttpLimits;
  /** Server URL in the OpenAPI document. */
  readonly publicBaseUrl: string;
};

/**
 * Builds the HTTP application. Does no I/O of its own: tests use `inject`, `main.ts` listens.
 * @param modules The routes, with their dependencies.
 */
export async function buildApp(deps: AppDeps, modules: readonly RouteModule[]): Promise<FastifyInstance> {
  const { limits = DEFAULT_HTTP_LIMITS } = deps;
  const lingering = createLingering();
  const latest: LatestRequests = new WeakMap();
  const memory = createMemoryBudget(limits.memoryBytesMax);
  const slow = createSlowBodies({
    graceMs: limits.requestTimeoutMs,
    bytesPerSecondMin: limits.bodyBytesPerSecondMin,
  });
  deps.metrics.requestMemory.from(memory.taken);
  const app = fastify({
    serverFactory: serverFactory(limits, lingering, latest),
    logger: false,
    bodyLimit: BODY_BYTES_MAX,
    trustProxy: typeof deps.trustProxy === 'boolean' ? deps.trustProxy : [...deps.trustProxy],
    genReqId: requestIdOf,
    clientErrorHandler: (error, socket) =>
      answerParserError(error, socket, latest.get(socket)?.request, lingering),
    frameworkErrors: (error, request, reply) => {
      // No hook has run for such a request.
      reply.headers(standardHeaders(request.id));
      void sendError(request, reply, toAppError(error));
    },
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: false, maxParamLength: PATH_PARAMETER_MAX },
  });
  app.setValidatorCompiler(inputCompiler);
  app.setSerializerCompiler(serializerCompiler);
  app.decorate('fingerprintKey', deps.fingerprintKey);
  addRequestFields(app);
  readBodies(app, createBodyReader({ memory, slow, onRefused: deps.metrics.bodyRefused }));
  const known = knownMethods(app);
  const answerUnknown = answerFaults(app, known, deps.log);
  observeRequests(app, deps);
  leaveBodies(app, limits);
  boundAnswers(app, memory, () => deps.metrics.bodyRefused('answer'));
  await shedOverload(app, limits);
  refuseUnknown(app, known, answerUnknown);
  admitRequests(app, deps.authenticate);
  readmitRequests(app, deps.readmit);
  meetExpectations(app);
  app.addHook('preClose', (done) => {
    lingering.end();
    slow.stop();
    done();
  });
  installDocs(app, deps.publicBaseUrl);
  installHomePage(app);
  for (const addRoutes of modules) addRoutes(app);
  return app;
}

/**
 * Node answers an unknown `Expect` with a bare 417; RFC 9110 lets a server ignore it. A client that waits for
 * `100-continue` gets it when the body is about to be read.
 */
function meetExpectations({ server }: FastifyInstance): void {
  for (const expectation of ['checkContinue', 'checkExpectation']) {
    server.on(expectation, (request, response) => server.emit('request', request, response));
  }
}
