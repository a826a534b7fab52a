import { overloaded, type AppError } from '#core/domain/fault/app-error.ts';

/** Clients retry after the current requests are done. */
const RETRY_AFTER_S = 2;

/** Returns the error for a request for which there is no memory, or no slot soon enough. */
export function noRoom(): AppError {
  return overloaded(RETRY_AFTER_S, 'Too many requests are under way; try again in a moment');
}
