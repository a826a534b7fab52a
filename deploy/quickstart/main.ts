// Starts Despatch on this machine with everything it needs: `npm run quickstart -- --help`.
import { resolve } from 'node:path';
import { styleText } from 'node:util';
import { HELP, parseOptions } from './options.ts';
import { createProgress } from './progress.ts';
import { runQuickstart } from './run-quickstart.ts';

const root = resolve(import.meta.dirname, '../..');
const parsed = parseOptions(process.argv.slice(2), process.env, root);

switch (parsed.kind) {
  case 'help':
    process.stdout.write(HELP);
    break;
  case 'fault':
    process.stderr.write(`${parsed.message}\nSee npm run quickstart -- --help\n`);
    process.exitCode = 2;
    break;
  case 'run':
    try {
      const progress = createProgress(process.stderr);
      process.exitCode = await runQuickstart({ root, options: parsed.options, progress });
    } catch (error) {
      // The program's own output is printed first, so that the last line states what failed.
      const [failure = '', ...output] = (error as Error).message.replace(/:\n/, '\n').split('\n');
      if (output.length > 0) process.stderr.write(`${output.join('\n')}\n`);
      process.stderr.write(
        `${styleText('red', 'Quick start failed:', { stream: process.stderr })} ${failure}\n`,
      );
      process.exitCode = 1;
    }
}
