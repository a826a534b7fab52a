import type { FastifyRequest } from 'fastify';
import type { IncomingMessage } from 'node:http';
import { AppError } from '#core/domain/app-error.ts';
import { timedOut, truncated } from './errors.ts';
import { createJsonScan, type JsonScan } from './json-scan.ts';
import type { MemoryBudget, Reservation } from './memory-budget.ts';
import { readJson, tooManyValues, VALUES_MAX } from './read-input.ts';
import type { SlowBodies, Upload } from './slow-bodies.ts';
import { createTurns } from './turns.ts';

export type ReadBodyDeps = {
  readonly memory: MemoryBudget;
  readonly slow: SlowBodies;
  /** A request that is not taken for what its body takes: memory, or time. */
  readonly onRefused: (reason: 'memory' | 'slow') => void;
};

/** How a body is reserved whose length nobody has told. */
const STEP_BYTES = 64 * 1024;
/**
 * Beyond it bodies wait for their turn, from the first look at the bytes until the answer: as text, as values, as what is
 * stored and as what is sent to the database the largest takes six times its length, and all of these hold up whoever
 * else is to be answered.
 */
const LARGE_BYTES = 64 * 1024;
/** Of bodies at once that have their turn. */
const TURN_BYTES_MAX = 1024 * 1024;
/** What a parsed value takes at least, and each of its copies on the way to the database. */
const BYTES_PER_VALUE = 64;
/** A body of fewer values takes little more than its bytes. */
const MANY_MARKS = 1_000;
/** Clients come again when the bodies of now are through. */
const RETRY_AFTER_S = 2;

/** Of a body that is read byte for byte. */
export type RawBounds = {
  readonly owner: string;
  readonly bytesMax: number;
  /** Its handler leaves the process to others by itself: it takes no turn from large bodies. */
  readonly isPaced?: true;
};

/** What is known of a request's JSON body once it has been read. */
export type JsonBody = { readonly value: unknown; readonly bytes: number };

/**
 * Reads bodies of requests that have been admitted. Their memory is reserved before a byte of them is kept, in the name of
 * who is to answer for it, and stays reserved until the request has ended: what was made of the bytes lives that long.
 */
export type BodyReader = {
  /**
   * @throws AppError: `payload_too_large`, `dependency_unavailable` without room, `validation_failed` when it is too slow
   * or ends early, and those of `readJson`.
   */
  readonly json: (request: FastifyRequest, moments: RequestMoments) => Promise<JsonBody>;
  /** Byte for byte. @throws AppError: the same, without those of `readJson`. */
  readonly raw: (request: FastifyRequest, bounds: RawBounds, moments: RequestMoments) => Promise<Buffer>;
};

export function createBodyReader({ memory, slow, onRefused }: ReadBodyDeps): BodyReader {
  const turns = createTurns(TURN_BYTES_MAX);

  async function read(
    { raw, headers }: FastifyRequest,
    { owner, bytesMax, look }: ReadOptions,
    { begin, ended, isOver }: RequestMoments,
  ): Promise<{ readonly bytes: Buffer; readonly reservation: Reservation }> {
    const length = headers['content-length'];
    const announced = length === undefined ? undefined : Number(length);
    if (announced !== undefined && announced > bytesMax) throw new AppError('payload_too_large');
    const wanted = announced ?? 0;
    // Without a turn of the queue where there is room: what has come of the body need not be kept meanwhile.
    const reservation = memory.reserve(owner, wanted) ?? (await roomFor(owner, wanted, ended));
    ended(reservation.release);
    if (isOver()) throw truncated();
    begin();
    const onSlow = (): void => onRefused('slow');
    const bytes = await gather(raw, { announced, bytesMax, slow, noRoom, reservation, look, onSlow });
    return { bytes, reservation };
  }

  /** Of a large body, from the first look at the bytes on. */
  async function takeTurn(owner: string, bytes: Buffer, { ended, isOver }: RequestMoments): Promise<void> {
    ended(await turns.take(owner, bytes.length));
    if (isOver()) throw truncated();
  }

  /** Nothing more is read of a body that waits: its client sends no faster than it is served. */
  async function roomFor(owner: string, bytes: number, ended: RequestMoments['ended']): Promise<Reservation> {
    const gone = new AbortController();
    ended(() => gone.abort());
    const reservation = await memory.await(owner, bytes, gone.signal);
    if (reservation === undefined) throw noRoom();
    return reservation;
  }

  function noRoom(): AppError {
    onRefused('memory');
    return new NoRoomError();
  }

  return {
    async json(request, moments) {
      const owner = ownerOf(request);
      const { bodyLimit: bytesMax } = request.routeOptions;
      const scan = isShort(request) ? undefined : createJsonScan();
      const look = scan && ((chunk: Buffer) => lookFor(scan, chunk));
      const { bytes, reservation } = await read(request, { owner, bytesMax, look }, moments);
      const marks = scan?.marks() ?? 0;
      if (marks > MANY_MARKS && !reservation.grow(marks * BYTES_PER_VALUE)) throw noRoom();
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

/** A body that cannot hold many values, whatever is in it. */
function isShort({ headers }: FastifyRequest): boolean {
  return Number(headers['content-length'] ?? Number.POSITIVE_INFINITY) < MANY_MARKS;
}

/** The fault of a body that has more values than any request needs, as soon as that is seen. */
function lookFor(scan: JsonScan, chunk: Buffer): AppError | undefined {
  scan.push(chunk);
  return scan.marks() > 2 * VALUES_MAX ? tooManyValues() : undefined;
}

type ReadOptions = {
  readonly owner: string;
  readonly bytesMax: number;
  /** Sees each piece as it comes, and may refuse the rest. */
  readonly look?: ((chunk: Buffer) => AppError | undefined) | undefined;
};

/** Too much is under way to take any more. */
export class NoRoomError extends AppError {
  constructor() {
    const message = 'Too many requests are under way; try again in a moment';
    super('dependency_unavailable', { retryAfter: RETRY_AFTER_S, message });
  }
}

export type RequestMoments = {
  /** Called before the first byte is read. */
  readonly begin: () => void;
  /** Registers what is to be done when the request has ended, however it does; at once where it has. */
  readonly ended: (then: () => void) => void;
  readonly isOver: () => boolean;
};

/** Whose memory a request takes. */
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
  readonly noRoom: () => AppError;
  readonly onSlow: () => void;
};

function gather(raw: IncomingMessage, options: Gathering): Promise<Buffer> {
  const { announced, bytesMax, slow, reservation, look, noRoom, onSlow } = options;
  return new Promise((resolve, reject) => {
    let isSettled = false;
    let received = 0;
    let reserved = announced ?? 0;
    /** The whole body, where it came at once; else the pieces are copied, as each would hold on to more than itself. */
    let whole: Buffer | undefined;
    const kept: Buffer[] = [];
    const upload: Upload = {
      startedAt: performance.now(),
      received: () => received,
      giveUp() {
        onSlow();
        settle(() => reject(timedOut()));
      },
    };

    function settle(how: () => void): void {
      // The listeners stay: an error of a connection that nobody listens to any more would end the process.
      if (isSettled) return;
      isSettled = true;
      slow.forget(upload);
      how();
    }

    function onData(chunk: Buffer): void {
      if (isSettled) return;
      const before = received;
      received += chunk.length;
      if (received > bytesMax) return settle(() => reject(new AppError('payload_too_large')));
      if (received > reserved) {
        const more = Math.max(received - reserved, STEP_BYTES);
        if (!reservation.grow(more)) return settle(() => reject(noRoom()));
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
    slow.watch(upload);
  });
}
