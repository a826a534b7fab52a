import { DependencyError } from '../fault/dependency-error.ts';

/**
 * The cause of a failed database call, which decides what to do next.
 * - `row`: a value that was sent cannot be stored. The same call fails again; without that row it may succeed.
 * - `away`: the server is unreachable, shutting down, overloaded, or aborted the transaction in favor of another. Retry later.
 * - `service`: the schema, the rights or this code is wrong. Neither time nor fewer rows help; an operator or a new version does.
 */
export type DatabaseFault = 'row' | 'away' | 'service';

/** By class of SQLSTATE, its first two characters; classes that are not listed count as `service`. */
const CLASSES: Readonly<Record<string, DatabaseFault>> = {
  '08': 'away', // connection
  '20': 'row', // case not found
  '21': 'row', // cardinality
  '22': 'row', // data
  '23': 'row', // constraints
  '25': 'away', // transaction state: read-only after a failover, ended while idle
  '27': 'row', // triggered data change
  '28': 'away', // authorization of a connection: a password that is being rotated
  '2F': 'row', // raised in a routine, like the next two
  '38': 'row',
  '39': 'row',
  '3D': 'away', // no such database: one that is being restored
  '40': 'away', // deadlock, serialization
  '44': 'row', // check option of a view
  '53': 'away', // resources: disk, memory, connections
  '54': 'row', // limits of size and depth
  '55': 'away', // locks
  '57': 'away', // shutdown, start, cancellation, timeout
  '58': 'away', // disks and files
  '72': 'away', // snapshot too old
  DS: 'away', // raised by `accept` if a process's clock is wrong, or if it was paused for long; the process corrects it
  P0: 'row', // raised by a function
  XX: 'row', // internal errors: damaged rows and indexes, allocations beyond the limit
};

/** Errors of the driver and the sockets when no answer arrived. */
const NO_ANSWER = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
]);

const SQLSTATE = /^[0-9A-Z]{5}$/;

/**
 * Classifies an error; no other code reads codes of the database and its driver.
 * @returns null for an error of neither.
 */
export function databaseFaultOf(error: unknown): DatabaseFault | null {
  if (!(error instanceof Error)) return null;
  if (error instanceof DependencyError) return error.dependency === 'postgres' ? 'away' : null;
  const { code } = error as { code?: unknown };
  if (typeof code !== 'string') return null;
  if (NO_ANSWER.has(code)) return 'away';
  if (error.name !== 'PostgresError' || !SQLSTATE.test(code)) return null;
  if (isNumberTaken(error) || isMeantForNewPartition(error)) return 'away';
  return CLASSES[code.slice(0, 2)] ?? 'service';
}

/**
 * Whether a message was refused because of its place. Either the clock that determined its purge day is behind the database's, or
 * its number is taken by another message, because a failover lost the end of the log and the database handed out numbers again.
 * The reserved numbers are then useless.
 */
export function isPlaceRefused(error: unknown): boolean {
  if (databaseFaultOf(error) !== 'away') return false;
  return (error as { code?: unknown }).code === 'DS001' || isNumberTaken(error as Error);
}

/** Whether one of several rows causes the failure, so that the others can be stored without it. */
export function isRowAtFault(error: unknown): boolean {
  const fault = databaseFaultOf(error);
  // `hold_contents`: the content of one message is gone.
  return fault === 'row' || (fault === 'away' && (error as { code?: unknown }).code === 'DS004');
}

/** Whether stored data or an index is damaged. The row at which the damage was noticed need not be at fault. */
export function isDamage(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return databaseFaultOf(error) === 'row' && (code === 'XX001' || code === 'XX002');
}

/** Tables, and partitions of tables, that accepted messages are inserted into. */
const ENTERED = /^(?:messages|live_messages|message_contents|unsettled_contents)(?:_\d{8}|_default)?$/;

/** What the driver adds to an error of the server. */
type Refusal = { readonly code?: unknown; readonly table_name?: string; readonly constraint_name?: string };

function isNumberTaken(error: Error & Refusal): boolean {
  return error.code === '23505' && error.table_name !== undefined && ENTERED.test(error.table_name);
}

/**
 * Whether a row went to a default partition while the partition of its week was being made. The server names the table and no
 * constraint then.
 */
function isMeantForNewPartition(error: Error & Refusal): boolean {
  return (
    error.code === '23514' && error.constraint_name == null && error.table_name?.endsWith('_default') === true
  );
}

/** Refusals of the session: of the connection and its login, no free connection, shutdown, crash and start. */
const SESSION_REFUSED = /^(?:08|28|3D)|^53300$|^57P0/;

/** Whether no other statement can succeed for now either. A statement that took too long or met a lock says nothing about others. */
export function isUnreachable(error: unknown): boolean {
  if (databaseFaultOf(error) !== 'away') return false;
  const { name, code = '' } = error as Error & { code?: string };
  return name !== 'PostgresError' || SESSION_REFUSED.test(code);
}

/** Whether a statement failed because another transaction held a lock for too long, or because of a deadlock. */
export function isLockRefused(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return databaseFaultOf(error) === 'away' && (code === '55P03' || code === '40P01');
}

/** Whether a function was not replaced because its result or the names of its parameters would change. */
export function isRedefinition(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return databaseFaultOf(error) === 'service' && code === '42P13';
}

/** Errors of a server that accepts no connection now, so that no statement was sent. */
const NOT_ACCEPTED = new Set(['53300', '57P03']);

/**
 * Whether the failed statement certainly left nothing behind: it was never sent, or the server answered that it was rolled back.
 * Other errors leave open whether it was committed: it may have ended after the loss of its connection, and a session that is
 * terminated (`FATAL`) may have just committed.
 */
export function isUndone(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  // All addresses of the host were tried.
  if (error instanceof AggregateError) return error.errors.length > 0 && error.errors.every(isUndone);
  const { code, syscall, severity, routine } = error as {
    code?: unknown;
    syscall?: unknown;
    severity?: unknown;
    routine?: unknown;
  };
  // A connection that was made can be refused too, by a firewall; that error names another system call.
  if (syscall === 'connect' || syscall === 'getaddrinfo' || code === 'CONNECT_TIMEOUT') return true;
  // A pooler's errors name no routine of the server, and do not tell what became of the statement.
  if (error.name !== 'PostgresError' || typeof routine !== 'string') return false;
  return severity === 'ERROR' || (typeof code === 'string' && NOT_ACCEPTED.has(code));
}
