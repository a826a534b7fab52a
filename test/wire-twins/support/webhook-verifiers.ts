import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectRoot, runCommand } from '../../support/command.ts';
import { installPythonPackages } from '../../support/python-packages.ts';
import { vendorPackage } from './vendor-package.ts';

export type JudgedCall = {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
} & (
  | { readonly secret: string }
  /** For a `v1a` signature: the `x` of its JWK. */
  | { readonly publicKey: string }
);

/** `genuine`, or the reason for the refusal, in the library's own words. */
type Verdict = string;

/** A receiver's verification with a third party's code. */
export type WebhookVerifier = AsyncDisposable & {
  readonly judge: (calls: readonly JudgedCall[]) => Promise<Verdict[]>;
};

/** Prepares a Standard Webhooks library. Resolves to what is missing where its language is not installed. */
type PrepareVerifier = () => Promise<WebhookVerifier | { readonly missing: string }>;

const PROGRAMS = join(projectRoot, 'test/wire-twins/programs');
/** The first run compiles Go's own packages. */
const BUILD_MS_MAX = 10 * 60_000;

export const WEBHOOK_VERIFIERS = {
  'standardwebhooks of npm': () => javaScript('standardwebhooks'),
  'svix of npm': () => javaScript('svix'),
  'standardwebhooks of PyPI': python,
  'the Go module of Standard Webhooks': go,
} as const satisfies Readonly<Record<string, PrepareVerifier>>;

type Package = {
  Webhook: new (secret: string) => {
    verify(body: string, headers: Readonly<Record<string, string>>): unknown;
  };
};

async function javaScript(name: string): Promise<WebhookVerifier> {
  const { Webhook } = await vendorPackage<Package>(name);
  const verdictOf = (call: JudgedCall): Verdict => {
    if (!('secret' in call)) return 'it knows no v1a';
    try {
      new Webhook(call.secret).verify(call.body, call.headers);
      return 'genuine';
    } catch (error) {
      return (error as Error).message;
    }
  };
  return { judge: async (calls) => calls.map(verdictOf), [Symbol.asyncDispose]: async () => {} };
}

async function python(): ReturnType<PrepareVerifier> {
  const packages = await installPythonPackages('test/wire-twins/requirements.txt');
  if (packages === null) return { missing: 'Python 3 with pip' };
  const program = ['python3', join(PROGRAMS, 'verify_webhooks.py')];
  return {
    judge: (calls) => judgeBy(program, calls, { PYTHONPATH: packages }),
    [Symbol.asyncDispose]: async () => {},
  };
}

async function go(): ReturnType<PrepareVerifier> {
  const version = await runCommand(['go', 'version'], 'gather').catch(() => null);
  if (version === null || version.code !== 0) return { missing: 'Go' };
  const folder = await mkdtemp(join(tmpdir(), 'despatch-verify-webhooks-'));
  const program = join(folder, 'verify-webhooks');
  const build = ['go', 'build', '-mod=readonly', '-buildvcs=false', '-o', program, '.'];
  const { code, output } = await runCommand(
    build,
    'gather',
    join(PROGRAMS, 'verify-webhooks'),
    AbortSignal.timeout(BUILD_MS_MAX),
  );
  if (code !== 0) throw new Error(`the program could not be built: ${output}`);
  return {
    judge: (calls) => judgeBy([program], calls),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

async function judgeBy(
  [program = '', ...args]: readonly string[],
  calls: readonly JudgedCall[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Verdict[]> {
  const running = promisify(execFile)(program, args, { env: { ...process.env, ...environment } });
  running.child.stdin?.end(JSON.stringify(calls));
  return JSON.parse((await running).stdout) as Verdict[];
}
