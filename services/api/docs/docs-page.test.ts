import fastify from 'fastify';
import { expect, test } from 'vitest';
import { installDocsPage } from './docs-page.ts';

const DOCUMENT = {
  info: { title: 'Despatch', description: 'What it is.' },
  paths: {
    '/v1/messages': { post: { operationId: 'sendMessage' }, get: { operationId: 'somethingElse' } },
  },
};

function setup() {
  const app = fastify();
  installDocsPage(app, { document: () => DOCUMENT, serverUrl: 'https://api.example.com' });
  return app;
}

test('the page loads only its own scripts, and its policy forbids inline scripts', async () => {
  await using app = setup();
  const page = await app.inject('/docs');
  expect(page.headers['content-security-policy']).toContain("script-src 'self';");
  expect(page.headers['content-security-policy']).toContain("default-src 'none'");
  expect(page.payload).not.toMatch(/<script>|<script [^>]*>[^<]/);
  const scripts = [...page.payload.matchAll(/<script src="([^"]+)"/g)].map(([, source = '']) => source);
  expect(scripts).toEqual(['docs/reference.js', 'docs/start.js']);
  for (const script of scripts) {
    const answer = await app.inject(`/${script}`);
    expect(answer.statusCode).toBe(200);
    expect(answer.headers['content-type']).toContain('javascript');
  }
});

test('a trailing slash redirects to the page with a relative location', async () => {
  await using app = setup();
  const { statusCode, headers } = await app.inject('/docs/');
  expect(statusCode).toBe(308);
  expect(headers['location']).toBe('../docs');
});

test('the document holds the guides and code samples, and the renderer sends no telemetry', async () => {
  await using app = setup();
  const { info, paths } = (await app.inject('/docs/openapi.json')).json<{
    info: { description: string };
    paths: Record<string, Record<string, { 'x-codeSamples'?: { label: string; source: string }[] }>>;
  }>();
  expect(info.description).toMatch(/^# Introduction\n\nWhat it is\.\n\n# First message\n/);
  const operations = paths['/v1/messages'];
  expect(operations?.['post']?.['x-codeSamples']?.map(({ label }) => label)).toEqual([
    'curl',
    'JavaScript',
    'Python',
    'Go',
  ]);
  expect(operations?.['get']).not.toHaveProperty('x-codeSamples');
  const start = (await app.inject('/docs/start.js')).payload;
  expect(start).toContain('"url":"docs/openapi.json"');
  expect(start).toContain('"telemetry":false');
  expect(start).toContain('"withDefaultFonts":false');
});
