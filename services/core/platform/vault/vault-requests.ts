import { Agent, interceptors, request, type Dispatcher } from 'undici';
import { renewedFile } from '../process/renewed-file.ts';
import { watchedCertificate, type CertificateLife } from '../process/watched-certificate.ts';

/** A request as `node-vault` states it, with the signal that was passed through it. */
type VaultHttpRequest = {
  readonly uri: string;
  readonly method: Dispatcher.HttpMethod;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: object;
  readonly signal: AbortSignal;
};

/** An answer as `node-vault` reads it. */
type VaultHttpAnswer = {
  readonly statusCode: number;
  /** Text if it is no JSON. */
  readonly body: unknown;
  readonly request: { readonly path: string };
};

/** An idle connection is closed after this time, sooner than servers and load balancers close theirs. */
const IDLE_MS = 30_000;
/** A standby that does not forward names the active server. */
const REDIRECTIONS_MAX = 5;

/**
 * Returns what sends the requests of `node-vault`. Its own client sends them, with their tokens and plaintexts, to any proxy that
 * the environment names; these go to the configured address alone.
 * @param caFile read again for each request: an authority is renewed while the process runs.
 * @param onCertificate called for each connection with TLS.
 * @throws if the file cannot be read.
 */
export function vaultRequests(
  caFile: string | undefined,
  onCertificate: (life: CertificateLife) => void,
): (request: VaultHttpRequest) => Promise<VaultHttpAnswer> {
  const dispatcher = currentDispatcher(caFile, onCertificate);
  return async ({ uri, method, headers, json, signal }) => {
    const { statusCode, body } = await request(uri, {
      method,
      dispatcher: dispatcher(),
      signal,
      headers: { ...headers, ...(json === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    });
    return { statusCode, body: parsed(await body.text()), request: { path: new URL(uri).pathname } };
  };
}

/** Returns the dispatcher for the authority that the file names now. */
function currentDispatcher(
  caFile: string | undefined,
  onCertificate: (life: CertificateLife) => void,
): () => Dispatcher {
  const open = (ca?: Buffer) => {
    const agent = new Agent({
      allowH2: false,
      connections: 64,
      keepAliveTimeout: IDLE_MS,
      keepAliveMaxTimeout: IDLE_MS,
      connect: {
        rejectUnauthorized: true,
        checkServerIdentity: watchedCertificate(onCertificate),
        // A resumed session would show the certificate of the first one, which may have been renewed since.
        maxCachedSessions: 0,
        ...(ca === undefined ? {} : { ca }),
      },
    });
    return { agent, dispatcher: agent.compose(interceptors.redirect({ maxRedirections: REDIRECTIONS_MAX })) };
  };
  if (caFile === undefined) {
    const { dispatcher } = open();
    return () => dispatcher;
  }
  const read = renewedFile(caFile);
  let known = read();
  let current = open(known);
  return () => {
    const now = read();
    if (now.equals(known)) return current.dispatcher;
    // Calls under way end over the connections of the former agent.
    current.agent.close().catch(() => undefined);
    [known, current] = [now, open(now)];
    return current.dispatcher;
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
