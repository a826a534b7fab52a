import type { FastifyInstance } from 'fastify';
import { ownerOf } from '../input/read-body.ts';
import type { MemoryBudget } from './memory-budget.ts';
import { noRoom } from './no-room.ts';

/** Smaller answers take no more memory than their request did, so they are not counted. */
const ANSWER_BYTES_MIN = 16 * 1024;

/**
 * Charges a long answer to the caller's memory budget until the client has read it. The answer to a completed change is
 * always sent.
 */
export function boundAnswers(app: FastifyInstance, memory: MemoryBudget, onRefused: () => void): void {
  app.addHook('onSend', (request, reply, payload, done) => {
    const bytes = typeof payload === 'string' ? payload.length : 0;
    if (bytes < ANSWER_BYTES_MIN || request.caller === null || request.method !== 'GET') return done();
    const reservation = memory.reserve(ownerOf(request), bytes);
    if (reservation === undefined) {
      onRefused();
      return done(noRoom());
    }
    reply.raw.once('close', reservation.release);
    done();
  });
}
