import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** The parts of one call that a receiver verifies. */
export type SnippetCall = {
  readonly secret: string;
  readonly id: string;
  readonly timestamp: string;
  readonly signatures: string;
  readonly body: string | Uint8Array;
};

/** The guide's code for a language, ready to run. */
type Snippet = AsyncDisposable & { readonly verify: (call: SnippetCall) => Promise<boolean> };

type Language = {
  /** File name of the guide's code, beside the program that calls it. */
  readonly file: string;
  /** Name of the function that it defines. */
  readonly name: string;
  /** Takes secret, id, timestamp and signatures as arguments and the body as input, and prints true or false. */
  readonly program: { readonly file: string; readonly source: string };
  readonly probe: readonly string[];
  readonly build?: readonly string[];
  readonly run: readonly string[];
};

/** By their names in the guide's code blocks. */
export const SNIPPET_LANGUAGES: Readonly<Record<string, Language>> = {
  javascript: {
    file: 'verify.mjs',
    name: 'verifyWebhook',
    program: {
      file: 'main.mjs',
      source: `import { readFileSync } from 'node:fs';
import { verifyWebhook } from './verify.mjs';
const [secret, id, timestamp, signatures] = process.argv.slice(2);
const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures };
console.log(verifyWebhook(secret, headers, readFileSync(0)));
`,
    },
    probe: [process.execPath, '--version'],
    run: [process.execPath, 'main.mjs'],
  },
  python: {
    file: 'verify.py',
    name: 'verify_webhook',
    program: {
      file: 'main.py',
      source: `import sys
from verify import verify_webhook
secret, *values = sys.argv[1:]
headers = dict(zip(["webhook-id", "webhook-timestamp", "webhook-signature"], values))
print(str(verify_webhook(secret, headers, sys.stdin.buffer.read())).lower())
`,
    },
    probe: ['python3', '--version'],
    run: ['python3', 'main.py'],
  },
  go: {
    file: 'verify.go',
    name: 'VerifyWebhook',
    program: {
      file: 'main.go',
      source: `package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	header := http.Header{}
	for i, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		header.Set(name, os.Args[2+i])
	}
	fmt.Println(VerifyWebhook(os.Args[1], header, body))
}
`,
    },
    probe: ['go', 'version'],
    build: ['go', 'build', '-o', 'verify', 'verify.go', 'main.go'],
    run: ['./verify'],
  },
  java: {
    file: 'VerifyWebhook.java',
    name: 'VerifyWebhook',
    program: {
      file: 'Main.java',
      source: `public final class Main {
  public static void main(String[] args) throws Exception {
    byte[] body = System.in.readAllBytes();
    System.out.println(VerifyWebhook.verify(args[0], args[1], args[2], args[3], body));
  }
}
`,
    },
    probe: ['javac', '-version'],
    build: ['javac', 'VerifyWebhook.java', 'Main.java'],
    run: ['java', '-cp', '.', 'Main'],
  },
  php: {
    file: 'verify.php',
    name: 'verify_webhook',
    program: {
      file: 'main.php',
      source: `<?php
require __DIR__ . '/verify.php';
[, $secret, $id, $timestamp, $signatures] = $argv;
$headers = ['webhook-id' => $id, 'webhook-timestamp' => $timestamp, 'webhook-signature' => $signatures];
echo verify_webhook($secret, $headers, stream_get_contents(STDIN)) ? 'true' : 'false';
`,
    },
    probe: ['php', '--version'],
    run: ['php', 'main.php'],
  },
  ruby: {
    file: 'verify.rb',
    name: 'verify_webhook',
    program: {
      file: 'main.rb',
      source: `require_relative 'verify'
secret, *values = ARGV
headers = %w[webhook-id webhook-timestamp webhook-signature].zip(values).to_h
puts verify_webhook(secret, headers, $stdin.binmode.read)
`,
    },
    probe: ['ruby', '--version'],
    run: ['ruby', 'main.rb'],
  },
};

/** Verifies a `v1a` signature; its secret is the set of keys, as JSON. */
const BY_KEY: Language = {
  file: 'verify.mjs',
  name: 'verifyByKey',
  program: {
    file: 'main.mjs',
    source: `import { readFileSync } from 'node:fs';
import { verifyByKey } from './verify.mjs';
const [jwks, id, timestamp, signatures] = process.argv.slice(2);
const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures };
console.log(verifyByKey(JSON.parse(jwks).keys, headers, readFileSync(0)));
`,
  },
  probe: [process.execPath, '--version'],
  run: [process.execPath, 'main.mjs'],
};

const exec = promisify(execFile);

const GUIDE = new URL('../../services/api/docs/guides/webhooks.md', import.meta.url);

/** Returns the code of the webhook guide that defines a function, as a reader would copy it. */
async function snippetOf(language: string, name: string): Promise<string> {
  const guide = await readFile(GUIDE, 'utf8');
  const blocks = [...guide.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].filter(
    ([, of, code = '']) => of === language && code.includes(name),
  );
  if (blocks.length !== 1)
    throw new Error(`the guide has ${blocks.length} blocks of ${language} with ${name}`);
  return blocks[0]?.[2] ?? '';
}

/** @returns null where the language's program is not installed. */
export async function prepareSnippet(language: string): Promise<Snippet | null> {
  const known = SNIPPET_LANGUAGES[language];
  if (known === undefined) throw new Error(`nobody knows how ${language} is run`);
  return (await isThere(known.probe)) ? prepare(language, known) : null;
}

/** Prepares the code for signatures by the tenant's key; the secret of a call is the content of jwks.json. */
export function prepareKeySnippet(): Promise<Snippet> {
  return prepare('javascript', BY_KEY);
}

async function prepare(language: string, known: Language): Promise<Snippet> {
  const folder = await mkdtemp(join(tmpdir(), `despatch-verify-${language}-`));
  await writeFile(join(folder, known.file), await snippetOf(language, known.name));
  await writeFile(join(folder, known.program.file), known.program.source);
  if (known.build !== undefined) await start(known.build, folder);
  return {
    async verify({ secret, id, timestamp, signatures, body }) {
      const output = await start([...known.run, secret, id, timestamp, signatures], folder, body);
      if (output !== 'true' && output !== 'false') throw new Error(`${language} printed ${output}`);
      return output === 'true';
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

function isThere([program = '', ...args]: readonly string[]): Promise<boolean> {
  return exec(program, args).then(
    () => true,
    () => false,
  );
}

async function start(
  [program = '', ...args]: readonly string[],
  cwd: string,
  input: string | Uint8Array = '',
) {
  const running = exec(program, args, { cwd });
  running.child.stdin?.end(input);
  return (await running).stdout.trim();
}
