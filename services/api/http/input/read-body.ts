import type { FastifyRequest } from 'fastify';
import type { IncomingMessage } from 'node:http';
import { AppError } from '#core/domain/fault/app-error.ts';
import { createJsonScan, type JsonScan } from '#core/domain/text/json-scan.ts';
import { timedOut, truncated } from '../errors.ts';
import type { MemoryBudget, Reservation } from '../admission/memory-budget.ts';
import { noRoom } from '../admission/no-room.ts';
import { readJson, tooManyValues, VALUES_MAX } from './read-input.ts';
import type { SlowBodies, IncomingBody } from '../admission/slow-bodies.ts';
import { tooLarge } from './too-large.ts';
import { createTurns } from '../admission/turns.ts';

export type ReadBodyDeps = {
  readonly memory: MemoryBudget;
  readonly slow: SlowBodies;
  /** Called when a request is refused because of the memory or the time that its body takes. */
  readonly onRefused: (reason: 'memory' | 'slow') => void;
};

/** Reservation step for a body without a declared length. */
const STEP_BYTES = 64 * 1024;
/**
 * Larger bodies wait for their turn, from the first look at the bytes until the answer. As text, as parsed values, as the
 * stored row and as the database message, the largest body takes six times its length, and each of these steps blocks all
 * other requests.
 */
const LARGE_BYTES = 64 * 1024;
/** Total size of the bodies that have their turn at once. */
const TURN_BYTES_MAX = 1024 * 1024;
/** Minimum memory of a parsed value, for each of its copies on the way to the database. */
const BYTES_PER_VALUE = 64;
/** A body with fewer values needs little more memory than its bytes. */
const MANY_MARKS = 1_000;

/** Limits of a body that is read as raw bytes. */
export type RawBounds = {
  readonly owner: string;
  readonly bytesMax: number;
  /** The handler yields the event loop itself, so it does not wait for a turn among large bodies. */
  readonly isPaced?: true;
};

/** A request's parsed JSON body and its size. */
export type JsonBody = { readonly value: unknown; readonly bytes: number };

/**
 * Reads the bodies of admitted requests. Memory is reserved before any byte is buffered, charged to the request's owner,
 * and stays reserved until the request ends, because the values made from the bytes live that long.
 */
export type BodyReader = {
  /**
   * @throws AppError: `payload_too_large`, `dependency_unavailable` without room, `validation_failed` when it is too slow
   * or ends early, and those of `readJson`.
   */
  readonly json: (request: FastifyRequest, moments: RequestMoments) => Promise<JsonBody>;
  /** Returns the raw bytes. @throws AppError: the same, without those of `readJson`. */
  readonly raw: (request: FastifyRequest, bounds: RawBounds, moments: RequestMoments) => Promise<Buffer>;
};

export function createBodyReader({ memory, slow, onRefused }: ReadBodyDeps): BodyReader {
  const turns = createTurns(TURN_BYTES_MAX);

  async function read(
    request: FastifyRequest,
    { owner, bytesMax, look }: ReadOptions,
    { begin, ended, isOver }: RequestMoments,
  ): Promise<{ readonly bytes: Buffer; readonly reservation: Reservation }> {
    const { raw } = request;
    const length = request.headers['content-length'];
    const announced = length === undefined ? undefined : Number(length);
    if (announced !== undefined && announced > bytesMax) throw tooLarge(bytesMax);
    const wanted = announced ?? 0;
    // Does not queue while there is room, so that input received meanwhile need not be buffered.
    const reservation = memory.reserve(owner, wanted) ?? (await roomFor(owner, wanted, ended));
    ended(reservation.release);
    if (isOver()) throw truncated();
    begin();
    const onSlow = (): void => onRefused('slow');
    const isComplete = raw.complete;
    const startedAt = performance.now();
    try {
      const bytes = await gather(raw, { announced, bytesMax, slow, refused, reservation, look, onSlow });
      return { bytes, reservation };
    } finally {
      // What has arrived before it is read is not waited for.
      if (!isComplete) request.uploadMs = performance.now() - startedAt;
    }
  }

  /** For a large body, before the first look at its bytes. */
  async function takeTurn(owner: string, bytes: Buffer, { answered, isOver }: RequestMoments): Promise<void> {
    answered(await turns.take(owner, bytes.length));
    if (isOver()) throw truncated();
  }

  /** While a body waits its connection is not read, so backpressure slows the client down. */
  async function roomFor(owner: string, bytes: number, ended: RequestMoments['ended']): Promise<Reservation> {
    const gone = new AbortController();
    ended(() => gone.abort());
    const reservation = await memory.await(owner, bytes, gone.signal);
    if (reservation === undefined) throw refused();
    return reservation;
  }

  function refused(): AppError {
    onRefused('memory');
    return noRoom();
  }

  return {
    async json(request, moments) {
      const owner = ownerOf(request);
      const { bodyLimit: bytesMax } = request.routeOptions;
      const scan = isShort(request) ? undefined : createJsonScan();
      const look = scan && ((chunk: Buffer) => lookFor(scan, chunk));
      const { bytes, reservation } = await read(request, { owner, bytesMax, look }, moments);
      const marks = scan?.marks() ?? 0;
      if (marks > MANY_MARKS && !reservation.grow(marks * BYTES_PER_VALUE)) throw refused();
      if (bytes.length > LARGE_BYTES) await takeTurn(owner, bytes, moments);
      return { value: readJson(bytes), bytes: bytes.length };
    },
    async raw(request, bounds, moments) {
      const { bytes } = await read(request, bounds, moments);
      if (bounds.isPaced !== true && bytes.length > LARGE_BYTES) await takeTurn(bounds.owner, bytes, moments);
      return bytes;
    },
  };
}

/** Returns whether the declared length is so small that the body cannot contain many values. */
function isShort({ headers }: FastifyRequest): boolean {
  return Number(headers['content-length'] ?? Number.POSITIVE_INFINITY) < MANY_MARKS;
}

/** Returns the error for a body with more values than any request needs, as soon as that is detected. */
function lookFor(scan: JsonScan, chunk: Buffer): AppError | undefined {
  scan.push(chunk);
  return scan.marks() > 2 * VALUES_MAX ? tooManyValues() : undefined;
}

type ReadOptions = {
  readonly owner: string;
  readonly bytesMax: number;
  /** Inspects each chunk as it arrives and may refuse the rest. */
  readonly look?: ((chunk: Buffer) => AppError | undefined) | undefined;
};

export type RequestMoments = {
  /** Called before the first byte is read. */
  readonly begin: () => void;
  /** Registers a callback for the end of the request, however it ends; runs it at once if the request has ended. */
  readonly ended: (then: () => void) => void;
  /**
   * Registers the callback, one per request, for the moment when the answer is made, or for the end of a request without one. A
   * client that does not read its answer delays the end, but not this moment.
   */
  readonly answered: (then: () => void) => void;
  readonly isOver: () => boolean;
};

/** Returns the owner that a request's memory is charged to. */
export function ownerOf({ caller }: FastifyRequest): string {
  if (caller === null) return '';
  return 'tenant' in caller ? caller.tenant.id : caller.user.id;
}

type Gathering = {
  readonly announced: number | undefined;
  readonly bytesMax: number;
  readonly slow: SlowBodies;
  readonly reservation: Reservation;
  readonly look: ReadOptions['look'];
  /** Returns the error for a body for which there is no memory. */
  readonly refused: () => AppError;
  readonly onSlow: () => void;
};

function gather(raw: IncomingMessage, options: Gathering): Promise<Buffer> {
  const { announced, bytesMax, slow, reservation, look, refused, onSlow } = options;
  return new Promise((resolve, reject) => {
    let isSettled = false;
    let received = 0;
    let reserved = announced ?? 0;
    /**
     * A body that arrives in a single chunk is used as it is; several chunks are copied, because each chunk keeps a larger
     * buffer alive.
     */
    let whole: Buffer | undefined;
    const kept: Buffer[] = [];
    const incoming: IncomingBody = {
      startedAt: performance.now(),
      received: () => received,
      giveUp() {
        onSlow();
        settle(() => reject(timedOut()));
      },
    };

    function settle(how: () => void): void {
      // The listeners stay attached: an unhandled error event of the connection would end the process.
      if (isSettled) return;
      isSettled = true;
      slow.forget(incoming);
      how();
    }

    function onData(chunk: Buffer): void {
      if (isSettled) return;
      const before = received;
      received += chunk.length;
      if (received > bytesMax) return settle(() => reject(tooLarge(bytesMax)));
      if (received > reserved) {
        const more = Math.max(received - reserved, STEP_BYTES);
        if (!reservation.grow(more)) return settle(() => reject(refused()));
        reserved += more;
      }
      const fault = look?.(chunk);
      if (fault !== undefined) return settle(() => reject(fault));
      if (chunk.length === announced) whole = chunk;
      else keep(chunk, before);
    }

    function keep(chunk: Buffer, before: number): void {
      const size = announced ?? STEP_BYTES;
      for (let done = 0; done < chunk.length;) {
        const at = (before + done) % size;
        if (at === 0) kept.push(Buffer.allocUnsafeSlow(size));
        done += chunk.copy(kept.at(-1) as Buffer, at, done);
      }
    }

    function onEnd(): void {
      settle(() => {
        const [first] = kept;
        const bytes = whole ?? (kept.length === 1 && first !== undefined ? first : Buffer.concat(kept));
        resolve(bytes.subarray(0, received));
      });
    }

    function onBroken(): void {
      settle(() => reject(truncated()));
    }

    raw.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken);
    slow.watch(incoming);
  });
}
