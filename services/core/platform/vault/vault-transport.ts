import createClient from 'node-vault';
import { z } from 'zod';
import { within } from '../process/deadline.ts';
import type { CertificateLife } from '../process/watched-certificate.ts';
import type { VaultConfig } from './keyring.ts';
import { vaultRequests } from './vault-requests.ts';

/** A closed set of words, used as metric labels. */
export type VaultOperation =
  | 'encrypt'
  | 'decrypt'
  | 'rewrap'
  | 'create_key'
  | 'read_key'
  | 'rotate_key'
  | 'delete_key'
  | 'login'
  | 'renew'
  | 'lookup';

/** The result of a call. `code` is the HTTP status, or why there is none. */
export type VaultRequest = { readonly op: VaultOperation; readonly code: string; readonly seconds: number };

export type VaultCall = {
  readonly op: VaultOperation;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below `/v1/`. */
  readonly path: string;
  readonly body?: Readonly<Record<string, unknown>>;
  /** Absent for a login. */
  readonly token?: string | undefined;
};

/**
 * `status` 0: no answer arrived. Only the first of Vault's error texts is kept; it never contains a secret. `error` is empty if
 * Vault gave none, and says so if the answer is not one of Vault.
 */
export type VaultAnswer = {
  readonly status: number;
  readonly body: unknown;
  readonly error: string;
  /** No answer arrived in time; whether the call took effect is unknown. */
  readonly isLate?: boolean;
};

export type VaultTransport = (call: VaultCall) => Promise<VaultAnswer>;

export type VaultTransportOptions = {
  readonly config: Pick<VaultConfig, 'address' | 'namespace' | 'caFile'>;
  /** Maximum time of one call as a whole, including a retry. */
  readonly deadlineMs: number;
  readonly onRequest: (request: VaultRequest) => void;
  readonly onCertificate?: ((life: CertificateLife) => void) | undefined;
};

type Attempt = VaultAnswer & { readonly code: string };

const LATE: Attempt = { status: 0, body: null, error: 'no answer in time', code: 'timeout', isLate: true };

/**
 * Creates the transport to one Vault. It never throws: the library's errors contain the request with its token and plaintext, so
 * none of them leaves this file. A call without an answer is retried once: every call here may be repeated, and a restarted Vault
 * leaves dead connections behind.
 */
export function createVaultTransport({
  config,
  deadlineMs,
  onRequest,
  onCertificate = () => undefined,
}: VaultTransportOptions): VaultTransport {
  const send = vaultRequests(config.caFile, onCertificate);
  const client = createClient({
    endpoint: config.address,
    // The library's name for what sends its requests.
    'request-promise': { defaults: () => send },
    // The library would write requests, including plaintexts, to the debug log if DEBUG enables it.
    debug: () => undefined,
  });
  // Overrides the library's fallback to environment variables; only our configuration decides.
  client.token = '';
  Object.assign(client, { namespace: config.namespace ?? '', pathPrefix: '' });

  const attempt = async ({ method, path, body, token }: VaultCall, timeoutMs: number): Promise<Attempt> => {
    const end = new AbortController();
    const options = {
      signal: end.signal,
      headers: token === undefined ? {} : { 'X-Vault-Token': token },
    };
    const sent = {
      GET: () => client.read(path, options),
      POST: () => client.write(path, body ?? {}, options),
      DELETE: () => client.delete(path, options),
    }[method]();
    const answered = sent.then(
      (answer: unknown): Attempt => ({ status: 200, body: answer, error: '', code: '200' }),
      toAttempt,
    );
    const answer = await within(answered, timeoutMs, () => LATE);
    end.abort();
    return answer;
  };

  return async (call) => {
    const started = performance.now();
    const leftMs = (): number => deadlineMs - (performance.now() - started);
    let answer = await attempt(call, deadlineMs);
    if (answer.code === 'network' && leftMs() > 100) answer = await attempt(call, leftMs());
    onRequest({ op: call.op, code: answer.code, seconds: (performance.now() - started) / 1_000 });
    const { code: _, ...shown } = answer;
    return shown;
  };
}

const Refusal = z.object({ response: z.object({ statusCode: z.number(), body: z.unknown() }) });
const Errors = z.object({ errors: z.array(z.string()) });

function toAttempt(error: unknown): Attempt {
  const refusal = Refusal.safeParse(error);
  if (refusal.success) {
    const { statusCode, body } = refusal.data.response;
    const given = Errors.safeParse(body).data;
    const error = given === undefined ? `not an answer of Vault: ${statusCode}` : (given.errors[0] ?? '');
    return { status: statusCode, body: null, error, code: String(statusCode) };
  }
  const { code } = error as { code?: unknown };
  if (code === 'ETIMEDOUT' || code === 'UND_ERR_CONNECT_TIMEOUT') return LATE;
  return { status: 0, body: null, error: typeof code === 'string' ? code : 'no connection', code: 'network' };
}
