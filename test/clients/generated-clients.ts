import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot, runCommand, tool } from '../support/command.ts';
import { installOwnPackages } from '../support/own-packages.ts';
import { installPythonPackages } from '../support/python-packages.ts';
import { obtainGeneratorJar } from './generator-jar.ts';

/** A program that uses a generated client, with its command and folder. */
export type ClientProgram = {
  readonly command: readonly string[];
  readonly folder: string;
  readonly environment?: Readonly<Record<string, string>>;
};

/**
 * Generates a client of the document and checks or compiles it together with the program that uses it.
 * @param document path of the OpenAPI document.
 * @param folder an empty folder for the client.
 * @throws Error with the output of the generator or the compiler.
 */
export type GenerateClient = (document: string, folder: string) => Promise<ClientProgram>;

const PROGRAMS = join(projectRoot, 'test/clients/programs');

export const GENERATED_CLIENTS: Readonly<Record<string, GenerateClient>> = {
  async 'openapi-generator, Python'(document, folder) {
    await runGenerator('python', document, folder, 'packageName=despatch');
    const packages = await installPythonPackages('test/clients/requirements.txt');
    if (packages === null) throw new Error('there is no Python 3 with pip');
    await copyFile(join(PROGRAMS, 'python.py'), join(folder, 'use.py'));
    return { command: ['python3', 'use.py'], folder, environment: { PYTHONPATH: packages } };
  },

  async 'openapi-generator, Go'(document, folder) {
    await runGenerator('go', document, folder, 'packageName=despatch', [
      '--git-host=example.com',
      '--git-user-id=despatch',
      '--git-repo-id=client',
    ]);
    await mkdir(join(folder, 'cmd'));
    await copyFile(join(PROGRAMS, 'go.go'), join(folder, 'cmd/main.go'));
    await run(['go', 'vet', './cmd'], folder);
    await run(['go', 'build', '-mod=mod', '-o', 'use', './cmd'], folder);
    return { command: ['./use'], folder };
  },

  async 'hey-api'(document, folder) {
    const output = `output: { path: 'client', importFileExtension: '.ts' }`;
    const plugins = `plugins: ['@hey-api/typescript', '@hey-api/sdk', '@hey-api/client-fetch']`;
    const config = `export default { input: ${JSON.stringify(document)}, ${output}, ${plugins} };\n`;
    await writeFile(join(folder, 'generator.config.mjs'), config);
    const programs = await installOwnPackages('test/clients');
    await run([join(programs, 'openapi-ts'), '-f', 'generator.config.mjs'], folder);
    return checkTypes('hey-api.ts', folder);
  },

  async orval(document, folder) {
    const target = `{ target: 'client.ts', client: 'fetch', mode: 'single', baseUrl: { getBaseUrlFromSpecification: true } }`;
    const config = `export default { despatch: { input: ${JSON.stringify(document)}, output: ${target} } };\n`;
    await writeFile(join(folder, 'orval.config.mjs'), config);
    const programs = await installOwnPackages('test/clients');
    await run([join(programs, 'orval'), '--config', 'orval.config.mjs'], folder);
    return checkTypes('orval.ts', folder);
  },
};

async function runGenerator(
  language: string,
  document: string,
  folder: string,
  properties: string,
  more: readonly string[] = [],
): Promise<void> {
  const jar = await obtainGeneratorJar(process.env);
  const options = [
    '-g',
    language,
    '-i',
    document,
    '-o',
    folder,
    `--additional-properties=${properties}`,
    ...more,
  ];
  await run(['java', '-jar', jar, 'generate', ...options], folder);
}

/** A client that its compiler rejects is unusable, even if it would run. */
async function checkTypes(program: string, folder: string): Promise<ClientProgram> {
  await copyFile(join(PROGRAMS, program), join(folder, 'use.ts'));
  const compilerOptions = {
    target: 'esnext',
    lib: ['esnext', 'dom', 'dom.iterable'],
    module: 'esnext',
    moduleResolution: 'bundler',
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    types: ['node'],
    typeRoots: [join(projectRoot, 'node_modules/@types')],
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['**/*.ts'] }));
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }\n');
  await run([tool('tsc'), '-p', '.'], folder);
  return { command: [process.execPath, 'use.ts'], folder };
}

async function run(command: readonly string[], folder: string): Promise<void> {
  const { code, output } = await runCommand(command, 'gather', folder);
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}:\n${output}`);
}
