import { pino, type Logger as PinoLogger } from 'pino';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import { scrub } from './scrub.ts';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/**
 * Facts of one line: bounded words, ids, numbers and errors. Message bodies, recipients' addresses and credentials are never
 * logged; values with a telling name or shape are redacted.
 */
export type LogFields = Readonly<Record<string, unknown>>;

type Write = {
  (fields: LogFields, message: string): void;
  (message: string): void;
};

export type Logger = {
  readonly debug: Write;
  readonly info: Write;
  readonly warn: Write;
  readonly error: Write;
  /** Returns a logger whose lines contain these fields too. */
  readonly child: (fields: LogFields) => Logger;
};

export type LoggerOptions = {
  readonly level: LogLevel;
  /** The deployment, for example `api`. */
  readonly component: string;
  /** Returns fields that are added to each line when it is written, such as the current trace's ids. */
  readonly context?: () => LogFields;
  /** Default: standard output, one synchronous write per line, so that no line is lost however the process ends. */
  readonly destination?: { write(line: string): void; flush?(): void };
};

/** Creates a logger that writes one JSON object per line with `ts`, `level`, `msg`, `component` and the line's fields. */
export function createLogger(options: LoggerOptions): Logger {
  const { level, component, context, destination } = options;
  const logger = pino(
    {
      level,
      base: { component },
      messageKey: 'msg',
      timestamp: () => `,"ts":"${new Date().toISOString()}"`,
      formatters: {
        level: (label) => ({ level: label }),
        log: (fields) => clean(fields),
      },
      // Errors are cleaned with all other fields; the library's own serializer would print them completely.
      serializers: { err: (cleaned: unknown) => cleaned },
      hooks: {
        logMethod(args, method) {
          method.apply(this, args.map((arg) => (typeof arg === 'string' ? scrub(arg) : arg)) as typeof args);
        },
      },
      // Returns a copy, because the library adds a line's fields to the returned object.
      ...(context === undefined ? {} : { mixin: () => ({ ...context() }) }),
    },
    destination ?? { write: standardOutput() },
  );
  return wrap(logger, () => destination?.flush?.());
}

/** Returns a function that writes to standard output synchronously and waits for a full pipe. */
export function standardOutput(): (text: string) => void {
  const destination = pino.destination({ dest: 1, sync: true });
  return (text) => void destination.write(text);
}

/**
 * Wraps a pino logger. The library cleans the fields of a line but not those of a child, so `child` cleans them.
 * @param flush called after each error, which may be the last line.
 */
function wrap(logger: PinoLogger, flush: () => void): Logger {
  const writer =
    (level: LogLevel): Write =>
    (first: LogFields | string, message?: string) => {
      if (typeof first === 'string') logger[level](first);
      else logger[level](first, message);
      if (level === 'error') flush();
    };
  return {
    debug: writer('debug'),
    info: writer('info'),
    warn: writer('warn'),
    error: writer('error'),
    child: (fields) => wrap(logger.child(clean(fields)), flush),
  };
}

/** A logger that writes nothing; used if a caller passes none. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLogger,
};

const DEPTH_MAX = 6;
const ITEMS_MAX = 50;
const REDACTED = '[redacted]';

/** Names whose values are secrets, content or addresses, compared without case and punctuation. */
const HIDDEN_NAMES = new Set(
  (
    'authorization proxyauthorization cookie setcookie xservicekey servicekey apikey key secret secrets secretconfig secretid ' +
    'clientsecret password passwd pass token accesstoken refreshtoken authtoken clienttoken vaulttoken xvaulttoken privatekey ' +
    'credentials signature databaseurl pepper plaintext ciphertext ' +
    'to from recipient recipients phone phonenumber email address body bodyhtml bodytext subject title content payload text html ' +
    'replyto attachments variables data metadata headers rawbody'
  ).split(' '),
);

function isHidden(name: string): boolean {
  return HIDDEN_NAMES.has(name.toLowerCase().replace(/[^a-z]/g, ''));
}

function clean(fields: LogFields): Record<string, unknown> {
  return cleanObject(fields, 0, new Set());
}

function cleanObject(value: object, depth: number, above: Set<object>): Record<string, unknown> {
  above.add(value);
  const entries = Object.entries(value)
    .slice(0, ITEMS_MAX)
    .map(([name, inner]) => [
      name,
      // Tests break this (mutant: log-redaction): secrets do not reach the log.
      isHidden(name) && inner !== undefined ? REDACTED : cleanValue(inner, depth + 1, above),
    ]);
  above.delete(value);
  return Object.fromEntries(entries) as Record<string, unknown>;
}

function cleanValue(value: unknown, depth: number, above: Set<object>): unknown {
  if (typeof value === 'string') return scrub(value);
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return typeof value === 'function' ? undefined : value;
  if (above.has(value) || depth > DEPTH_MAX) return '[cut]';
  if (value instanceof Error) return cleanError(value, depth, above);
  if (value instanceof Date) return value.toJSON();
  if (ArrayBuffer.isView(value)) return REDACTED;
  if (Array.isArray(value)) {
    above.add(value);
    const items = value.slice(0, ITEMS_MAX).map((item) => cleanValue(item, depth + 1, above));
    above.delete(value);
    return items;
  }
  if ('toJSON' in value && typeof value.toJSON === 'function')
    return cleanValue(value.toJSON(), depth + 1, above);
  return cleanObject(value, depth, above);
}

/**
 * Keeps only the fields that every error has, because drivers and clients attach requests, headers and parameters to theirs; for
 * a failed call also the dependency and the fault.
 */
function cleanError(
  error: Error & { code?: unknown },
  depth: number,
  above: Set<object>,
): Record<string, unknown> {
  above.add(error);
  const { code, cause } = error;
  const cleaned = {
    name: error.name,
    message: scrub(error.message),
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
    ...(error instanceof DependencyError ? { dependency: error.dependency, fault: error.fault } : {}),
    ...(error.stack === undefined ? {} : { stack: scrub(error.stack) }),
    ...(cause === undefined ? {} : { cause: cleanValue(cause, depth + 1, above) }),
    ...(error instanceof AggregateError
      ? { errors: error.errors.slice(0, 5).map((one) => cleanValue(one, depth + 1, above)) }
      : {}),
  };
  above.delete(error);
  return cleaned;
}
