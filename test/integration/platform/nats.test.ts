import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startNats, type NatsServer } from '../../../deploy/servers/nats.ts';
import { secret } from '#core/domain/storage/secret.ts';
import type { Nats, NatsConfig, WakeDelivery } from '#core/platform/nats/nats-types.ts';
import { silentLogger, type Logger } from '#core/platform/telemetry/logger.ts';
import { openNats, type NatsOptions } from '#core/platform/nats/nats.ts';
import { makeCertificates } from '#test/support/certificates.ts';
import { testNats } from '#test/support/servers.ts';

type Options = Partial<NatsConfig> &
  Partial<Pick<NatsOptions, 'log' | 'connectWaitMs' | 'reasonEveryMs'>> & { url: string };

function open({
  url,
  log = silentLogger,
  connectWaitMs = 5_000,
  reasonEveryMs = 60_000,
  ...config
}: Options): Promise<Nats> {
  return openNats({
    config: { servers: [url], prefix: 'despatch', replicas: 1, ...config },
    log,
    name: 'test',
    connectWaitMs,
    reasonEveryMs,
  });
}

function collect(nats: Nats, options: { maxMessages?: number } = {}) {
  const ending = new AbortController();
  const wakes: WakeDelivery[] = [];
  let recreated = 0;
  const consumer = nats.consumeWakes({
    maxMessages: options.maxMessages ?? 100,
    signal: ending.signal,
    onRecreated: () => void (recreated += 1),
    onWake: (wake) => void wakes.push(wake),
  });
  return {
    ...consumer,
    wakes,
    texts: () => wakes.map((wake) => Buffer.from(wake.payload).toString()).toSorted(),
    recreated: () => recreated,
    async [Symbol.asyncDispose]() {
      ending.abort();
      await consumer.closed;
    },
  };
}

const wake = (id: string) => ({ kind: 'normal' as const, id, payload: id });

/** Publishes until the server acknowledges, as the sweep does. */
async function publishAtLast(nats: Nats, id: string): Promise<void> {
  await expect.poll(() => nats.publishWakes([wake(id)])).toEqual({ failed: [] });
}

describe('wake-ups', () => {
  async function setup() {
    const { url, prefix } = testNats();
    const stack = new AsyncDisposableStack();
    const nats = stack.use(await open({ url, prefix }));
    const raw = stack.adopt(await connect({ servers: url }), (connection) => connection.close());
    const manager = await jetstreamManager(raw);
    const stream = `${prefix.toUpperCase()}_WAKE`;
    const durable = `${prefix.toUpperCase()}_DELIVERY`;
    stack.defer(async () => void (await manager.streams.delete(stream).catch(() => false)));
    return {
      nats,
      url,
      prefix,
      raw,
      manager,
      stream,
      durable,
      [Symbol.asyncDispose]: () => stack.disposeAsync(),
    };
  }

  test('a published wake-up arrives once, with its priority and trace', async () => {
    await using b = await setup();
    await b.nats.ensureStream();
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const { failed } = await b.nats.publishWakes([
      { kind: 'high', id: 'a', payload: 'a', traceparent },
      wake('b'),
      wake('b'),
      { kind: 'bulk', id: 'c', payload: new TextEncoder().encode('c') },
    ]);
    expect(failed).toEqual([]);
    await using consumed = collect(b.nats);
    await expect.poll(consumed.texts).toEqual(['a', 'b', 'c']);
    expect(consumed.wakes.find((one) => one.kind === 'high')).toMatchObject({ traceparent });
    expect(consumed.wakes.find((one) => one.kind === 'bulk')?.traceparent).toBeUndefined();
    await expect.poll(b.nats.consumerLag).toEqual({ pending: 0 });
  });

  test('publishing without a stream returns every wake-up as failed and does not throw', async () => {
    await using b = await setup();
    expect(await b.nats.publishWakes([wake('a'), wake('b')])).toEqual({ failed: ['a', 'b'] });
  });

  test('consumerLag counts the pending wake-ups', async () => {
    await using b = await setup();
    await b.nats.ensureStream();
    expect(await b.nats.publishWakes(['a', 'b', 'c'].map(wake))).toEqual({ failed: [] });
    expect(await b.nats.consumerLag()).toEqual({ pending: 3 });
    await using consumed = collect(b.nats);
    await expect.poll(() => consumed.wakes.length).toBe(3);
    expect(await b.nats.consumerLag()).toEqual({ pending: 0 });
  });

  test('each of 500 wake-ups reaches exactly one of two workers', async () => {
    await using b = await setup();
    await using second = await open({ url: b.url, prefix: b.prefix });
    await b.nats.ensureStream();
    await using one = collect(b.nats);
    await using two = collect(second);
    const ids = Array.from({ length: 500 }, (_, index) => `m${index}`);
    expect(await b.nats.publishWakes(ids.map(wake))).toEqual({ failed: [] });
    await expect.poll(() => one.wakes.length + two.wakes.length).toBe(500);
    expect([...one.texts(), ...two.texts()].toSorted()).toEqual(ids.toSorted());
  });

  test('a drifted stream and consumer are corrected in place, and messages are kept', async () => {
    await using b = await setup();
    await b.nats.ensureStream();
    await b.nats.publishWakes([wake('kept')]);
    const before = await b.manager.streams.info(b.stream);
    await b.manager.streams.update(b.stream, { max_bytes: 1_000_000, subjects: [`${b.prefix}.wake.high`] });
    await b.manager.consumers.update(b.stream, b.durable, { description: 'Somebody else' });
    await b.nats.ensureStream();
    const after = await b.manager.streams.info(b.stream);
    expect(after.config).toMatchObject({ max_bytes: 256 * 1024 * 1024, subjects: [`${b.prefix}.wake.*`] });
    expect([after.created, after.state.messages]).toEqual([before.created, 1]);
    const consumer = await b.manager.consumers.info(b.stream, b.durable);
    expect(consumer.config).toMatchObject({ description: 'Delivery workers' });
  });

  test('a stream with the wrong retention policy is recreated', async () => {
    await using b = await setup();
    await b.manager.streams.add({ name: b.stream, subjects: [`${b.prefix}.wake.*`], retention: 'workqueue' });
    await b.nats.ensureStream();
    expect((await b.manager.streams.info(b.stream)).config.retention).toBe('limits');
  });

  test('ensureStream does not update a stream that is already correct', async () => {
    await using b = await setup();
    await b.nats.ensureStream();
    const updates: string[] = [];
    for (const call of ['STREAM.UPDATE', 'STREAM.CREATE', 'CONSUMER.CREATE']) {
      b.raw.subscribe(`$JS.API.${call}.${b.stream}.>`, { callback: () => void updates.push(call) });
      b.raw.subscribe(`$JS.API.${call}.${b.stream}`, { callback: () => void updates.push(call) });
    }
    await b.raw.flush();
    await b.nats.ensureStream();
    await b.raw.flush();
    expect(updates).toEqual([]);
  });

  test('a stream deleted during consumption is recreated and reported; consumption continues', async () => {
    await using b = await setup();
    await using consumed = collect(b.nats);
    await publishAtLast(b.nats, 'before');
    await expect.poll(consumed.texts).toContain('before');
    await b.manager.streams.delete(b.stream);
    await publishAtLast(b.nats, 'after');
    await expect.poll(consumed.texts).toContain('after');
    expect(consumed.recreated()).toBe(1);
  });

  test('a consumer deleted during consumption is recreated', async () => {
    await using b = await setup();
    await using consumed = collect(b.nats);
    await publishAtLast(b.nats, 'before');
    await expect.poll(consumed.texts).toContain('before');
    await b.manager.consumers.delete(b.stream, b.durable);
    await publishAtLast(b.nats, 'after');
    await expect.poll(consumed.texts).toContain('after');
    expect(consumed.recreated()).toBe(0);
  });

  test('notices reach all listeners of their kind and those of all kinds', async () => {
    await using b = await setup();
    await using second = await open({ url: b.url, prefix: b.prefix });
    const heard: string[] = [];
    b.nats.onNotice('tenant', (kind, payload) => void heard.push(`one ${kind} ${payload}`));
    const end = second.onNotice('*', (kind, payload) => {
      heard.push(`two ${kind} ${payload}`);
      throw new Error('a handler that throws ends no subscription');
    });
    await expect
      .poll(() => {
        b.nats.publishNotice('probe', '');
        return heard.includes('two probe ');
      })
      .toBe(true);
    heard.length = 0;
    b.nats.publishNotice('tenant', 't1');
    b.nats.publishNotice('key', 'k1');
    await expect
      .poll(() => heard.filter((one) => !one.includes('probe')).toSorted())
      .toEqual(['one tenant t1', 'two key k1', 'two tenant t1']);
    end();
    b.nats.publishNotice('tenant', 't2');
    await expect.poll(() => heard).toContain('one tenant t2');
    expect(heard).not.toContain('two tenant t2');
  });
});

describe('a NATS outage', () => {
  test('publishing fails at once; publishing, consumption and notices resume after the restart', async () => {
    await using server = await startNats();
    await using nats = await open({ url: server.url });
    const states: boolean[] = [];
    nats.onConnection((isConnected) => void states.push(isConnected));
    const notices: string[] = [];
    nats.onNotice('tenant', (_, payload) => void notices.push(payload));
    await using consumed = collect(nats);
    await publishAtLast(nats, 'before');
    await expect.poll(consumed.texts).toContain('before');

    await server.stop();
    await expect.poll(nats.isConnected).toBe(false);
    const started = performance.now();
    expect(await nats.publishWakes([wake('down')])).toEqual({ failed: ['down'] });
    // Much earlier than the publish would time out.
    expect(performance.now() - started).toBeLessThan(3_000);
    expect(await nats.consumerLag()).toBeNull();

    await server.restart();
    await expect.poll(nats.isConnected).toBe(true);
    await publishAtLast(nats, 'after');
    await expect.poll(consumed.texts).toContain('after');
    nats.publishNotice('tenant', 't1');
    await expect.poll(() => notices).toEqual(['t1']);
    expect(states).toEqual([true, false, true]);
  });

  test('the log says again and again why a lost connection cannot be made', async () => {
    await using server = await startNats();
    const reasons: string[] = [];
    const log: Logger = {
      ...silentLogger,
      warn: (fields: unknown, line?: string) =>
        void (line === 'NATS could not be reached' && reasons.push(String((fields as { err: Error }).err))),
    };
    await using nats = await open({ url: server.url, log, reasonEveryMs: 50 });
    await server.stop();
    await expect.poll(() => reasons.length).toBeGreaterThan(1);
    expect(reasons[0]).toMatch(/refused/i);
    expect(nats.isConnected()).toBe(false);
  });

  test('a lost server store is detected, and the stream is recreated', async () => {
    await using server = await startNats();
    await using nats = await open({ url: server.url });
    await using consumed = collect(nats);
    await publishAtLast(nats, 'before');
    await expect.poll(consumed.texts).toContain('before');
    await server.kill();
    rmSync(server.storeDir, { recursive: true });
    await server.restart();
    await publishAtLast(nats, 'after');
    await expect.poll(consumed.texts).toContain('after');
    expect(consumed.recreated()).toBe(1);
  });

  test('a client that starts before the server works without it and connects later', async () => {
    await using server = await startNats();
    await server.stop();
    await using nats = await open({ url: server.url, connectWaitMs: 200 });
    expect(nats.isConnected()).toBe(false);
    await using consumed = collect(nats);
    expect(await nats.publishWakes([wake('early')])).toEqual({ failed: ['early'] });
    await server.restart();
    await expect.poll(nats.isConnected).toBe(true);
    await publishAtLast(nats, 'late');
    await expect.poll(consumed.texts).toContain('late');
  });
});

describe('the shipped permissions', () => {
  let server: NatsServer;
  const password = (user: string): string => `${user}-password`;

  beforeAll(async () => {
    server = await startNats({
      include: 'deploy/nats/permissions.conf',
      env: {
        DESPATCH_NATS_API_PASSWORD: password('despatch_api'),
        DESPATCH_NATS_WORKER_PASSWORD: password('despatch_worker'),
        DESPATCH_NATS_CONTROLLER_PASSWORD: password('despatch_controller'),
      },
    });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  type User = 'despatch_api' | 'despatch_worker' | 'despatch_controller';
  const openAs = (user: User): Promise<Nats> =>
    open({ url: server.url, user, password: secret(password(user)) });
  const connectAs = (user: User): Promise<NatsConnection> =>
    connect({
      servers: server.url,
      user,
      pass: password(user),
      inboxPrefix: `_INBOX_${user}`,
      reconnect: false,
    });

  test('the worker creates the stream and consumes, the api publishes, both receive notices', async () => {
    await using worker = await openAs('despatch_worker');
    await using api = await openAs('despatch_api');
    await using controller = await openAs('despatch_controller');
    await worker.ensureStream();
    await using consumed = collect(worker);
    expect(await api.publishWakes([wake('a')])).toEqual({ failed: [] });
    await expect.poll(consumed.texts).toEqual(['a']);
    await expect.poll(worker.consumerLag).toEqual({ pending: 0 });
    const heard: string[] = [];
    api.onNotice('*', (kind) => void heard.push(`api ${kind}`));
    worker.onNotice('tenant', (kind) => void heard.push(`worker ${kind}`));
    await expect
      .poll(() => {
        controller.publishNotice('tenant', 't1');
        return new Set(heard);
      })
      .toEqual(new Set(['api tenant', 'worker tenant']));
  });

  test('a worker may replace a stream that has the wrong retention policy', async () => {
    await using worker = await openAs('despatch_worker');
    await worker.ensureStream();
    const raw = await connectAs('despatch_worker');
    const manager = await jetstreamManager(raw, { checkAPI: false });
    await manager.streams.delete('DESPATCH_WAKE');
    await manager.streams.add({
      name: 'DESPATCH_WAKE',
      subjects: ['despatch.wake.*'],
      retention: 'workqueue',
    });
    await worker.ensureStream();
    expect((await manager.streams.info('DESPATCH_WAKE')).config.retention).toBe('limits');
    await raw.close();
  });

  test.each<[User, string]>([
    ['despatch_api', '$JS.API.CONSUMER.MSG.NEXT.DESPATCH_WAKE.DESPATCH_DELIVERY'],
    ['despatch_api', '$JS.API.CONSUMER.CREATE.DESPATCH_WAKE.DESPATCH_DELIVERY'],
    ['despatch_api', '$JS.API.STREAM.INFO.DESPATCH_WAKE'],
    ['despatch_api', '$JS.API.STREAM.DELETE.DESPATCH_WAKE'],
    ['despatch_api', '$JS.ACK.DESPATCH_WAKE.DESPATCH_DELIVERY.1.1.1.1.0'],
    ['despatch_worker', '$JS.API.STREAM.CREATE.OTHER'],
    ['despatch_worker', '$JS.API.STREAM.DELETE.OTHER'],
    ['despatch_worker', '$JS.API.STREAM.LIST'],
    ['despatch_worker', '$JS.API.CONSUMER.CREATE.DESPATCH_WAKE.OTHER'],
    ['despatch_worker', '$JS.ACK.DESPATCH_WAKE.DESPATCH_DELIVERY.1.1.1.1.0'],
    ['despatch_worker', 'despatch.wake.normal'],
    ['despatch_worker', 'despatch.notice.tenant'],
    ['despatch_worker', '_INBOX_despatch_api.forged'],
    ['despatch_controller', 'despatch.wake.normal'],
    ['despatch_controller', '$JS.API.STREAM.INFO.DESPATCH_WAKE'],
    ['despatch_controller', '$JS.API.CONSUMER.MSG.NEXT.DESPATCH_WAKE.DESPATCH_DELIVERY'],
  ])('%s may not publish to %s', async (user, subject) => {
    const raw = await connectAs(user);
    const refused = firstError(raw);
    raw.publish(subject, '{}');
    await raw.flush();
    expect(await refused).toMatch(/Permissions Violation for Publish/i);
    await raw.close();
  });

  test.each<[User, string]>([
    ['despatch_api', 'despatch.wake.*'],
    ['despatch_api', '_INBOX_despatch_worker.>'],
    ['despatch_api', '_INBOX.>'],
    ['despatch_api', '>'],
    ['despatch_worker', 'despatch.wake.*'],
    ['despatch_worker', '_INBOX_despatch_api.>'],
    ['despatch_worker', '$JS.EVENT.>'],
    ['despatch_controller', 'despatch.notice.*'],
    ['despatch_controller', 'despatch.wake.*'],
    ['despatch_controller', '_INBOX_despatch_api.>'],
  ])('%s may not subscribe to %s', async (user, subject) => {
    const raw = await connectAs(user);
    const { promise, resolve } = Promise.withResolvers<string>();
    raw.subscribe(subject, { callback: (error) => resolve(error?.message ?? 'a message') });
    expect(await promise).toMatch(/Permissions Violation for Subscription/i);
    await raw.close();
  });

  test('a connection without a password or with a wrong one is rejected', async () => {
    await expect(connect({ servers: server.url, reconnect: false })).rejects.toThrow(/authorization/i);
    const wrong = connect({ servers: server.url, user: 'despatch_api', pass: 'no', reconnect: false });
    await expect(wrong).rejects.toThrow(/authorization/i);
  });

  async function firstError(raw: NatsConnection): Promise<string> {
    for await (const status of raw.status()) {
      if (status.type === 'error') return status.error.message;
    }
    return 'no error';
  }
});

describe('TLS', () => {
  let dir: string;
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'despatch-tls-'));
    makeCertificates(dir);
  });
  afterAll(() => rmSync(dir, { recursive: true }));

  const file = (name: string): string => join(dir, name);
  const tlsServer = (verify: boolean): Promise<NatsServer> =>
    startNats({
      config: `tls { cert_file: "${file('server.pem')}", key_file: "${file('server.key')}", ca_file: "${file('ca.pem')}", verify: ${verify} }`,
    });

  test('connects to a server whose certificate the authority signed', async () => {
    await using server = await tlsServer(false);
    await using nats = await open({ url: server.url, caFile: file('ca.pem') });
    expect(nats.isConnected()).toBe(true);
    await nats.ensureStream();
    expect(await nats.publishWakes([wake('a')])).toEqual({ failed: [] });
  });

  test('presents its client certificate if the server requires one', async () => {
    await using server = await tlsServer(true);
    const certificate = { certFile: file('client.pem'), keyFile: file('client.key') };
    await using nats = await open({ url: server.url, caFile: file('ca.pem'), ...certificate });
    expect(nats.isConnected()).toBe(true);
  });

  test('does not connect to a server whose certificate another authority signed', async () => {
    await using server = await tlsServer(false);
    await using nats = await open({ url: server.url, caFile: file('other-ca.pem'), connectWaitMs: 1_000 });
    expect(nats.isConnected()).toBe(false);
  });

  test('does not fall back to plain text if the URL requires TLS', async () => {
    await using server = await startNats();
    await using nats = await open({ url: server.url.replace('nats:', 'tls:'), connectWaitMs: 1_000 });
    expect(nats.isConnected()).toBe(false);
  });

  test('fails to start if a certificate file cannot be read', async () => {
    await expect(open({ url: 'nats://127.0.0.1:1', caFile: file('missing.pem') })).rejects.toThrow(/ENOENT/);
  });
});
