import { readFile } from 'node:fs/promises';
import {
  credsAuthenticator,
  usernamePasswordAuthenticator,
  type NodeConnectionOptions,
} from '@nats-io/transport-node';
import type { NatsConfig } from './nats-types.ts';
import { renewedFile } from '../process/renewed-file.ts';

/** @throws if a certificate or credentials file cannot be read. */
export async function connectionOptions(config: NatsConfig, name: string): Promise<NodeConnectionOptions> {
  const { user, password, credsFile, caFile, certFile, keyFile } = config;
  const files = [credsFile, caFile, certFile, keyFile].filter((file) => file !== undefined);
  // They are read again at each connection, to use renewed ones; reading them here detects a wrong path.
  await Promise.all(files.map((file) => readFile(file)));
  const wantsTls =
    files.length > (credsFile === undefined ? 0 : 1) || config.servers.some((url) => url.startsWith('tls:'));
  const authenticator =
    credsFile !== undefined
      ? credsAuthenticator(renewedFile(credsFile))
      : user !== undefined && password !== undefined
        ? usernamePasswordAuthenticator(user, () => password.reveal())
        : undefined;
  return {
    servers: [...config.servers],
    name,
    reconnect: true,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 500,
    reconnectJitter: 500,
    reconnectJitterTLS: 1_000,
    timeout: 5_000,
    pingInterval: 10_000,
    maxPingOut: 2,
    // A password that is being rotated may be refused twice before it is accepted.
    ignoreAuthErrorAbort: true,
    // A stack trace per request costs more than the request.
    noAsyncTraces: true,
    // Each user may only read replies below its own inbox.
    ...(user === undefined ? {} : { inboxPrefix: `_INBOX_${user}` }),
    ...(authenticator === undefined ? {} : { authenticator }),
    ...(wantsTls
      ? {
          tls: {
            ...(caFile === undefined ? {} : { caFile }),
            ...(certFile === undefined ? {} : { certFile }),
            ...(keyFile === undefined ? {} : { keyFile }),
          },
        }
      : {}),
  };
}
