import { CONTESTANT_GROUPS, CONTESTANT_NAMES, isPaced } from './contestants.ts';
import { GROWTH_PARTS } from './measure/growth-parts.ts';

export const HELP = `npm run bench [-- options]

Measures the service on this machine, side by side with its floors and with other queues on the same Postgres, which
syncs every commit. Each contestant runs in processes of its own, all in turn and in another order each round; ratios
within one round are what counts, absolute figures are the machine's. Prints every target with its figure, writes the
result to .despatch/bench.json, and fails when a message or an event was lost or sent twice, or a receipt that was answered
with 2xx was lost.

Three commands, each of which keeps in .despatch/bench.json what the others found:

  npm run bench                  rounds: every contestant, about twenty minutes a round on two cores
  npm run bench -- --growth      from 1 thousand to 10 million messages and from 10 to 10,000 tenants, beside a million scheduled
                                 messages or suppressed recipients, with routes of 20 steps; more than an hour
  npm run bench -- --soak 60     an hour at a share of what the service keeps up with: throughput, latency, memory of
                                 each process and dead rows over time. An old snapshot is held open in the middle

Rounds:
  --rounds N        rounds, the median of which is reported (5)
  --only A,B        measures these alone, see below; targets that need others say "not measured"
  --resume          keeps the rounds of the last result and measures again only what --only names
  --beside DIR      another checkout of the project: accept, running and drain of it are measured in the same rounds
                    and at the same rates, by its own bench; with --maximum, first in every second round
  --backlog N       messages of the backlog that is drained, receipts of the one that is applied, and events of the one that
                    endpoints are told of (30000)

Growth:
  --grow-to N       messages of the largest database (10000000)
  --only A,B        measures these parts alone, see below
  --plant N         scheduled messages, and suppressed recipients, of the parts that have them (1000000)

Soak:
  --soak MINUTES    how long, besides finding out before and after it what the service keeps up with
  --share PERCENT   of what it is found to keep up with, or of --maximum (70)

Growth and soak:
  --dir DIR         keeps the state and the databases there. A second call goes on where the first one was ended, or,
                    where nothing is missing, starts no server and reports what was found

All:
  --seconds S       length of each measurement (8)
  --warm S          load before each measurement that is not counted (3)
  --maximum N       messages per second that 100 % of the load is; 25, 50 and 80 % of it, the share of the soak, and
                    half of it while growing, are offered. Default: what the service is found to keep up with
  --connections N   connections of the load generator, the same for all (256)
  --tenants N       tenants that the load is spread over, a key each (50)
  --idempotent      every request carries an idempotency key
  --keyring KIND    vault: a real one, built once where none is installed; local: a folder (vault)
  --seed N          order of the contestants (from the clock; printed with the result)
  --profile DIR     writes CPU profiles of api and worker there
  --write           writes services/PERFORMANCE.md
  --quick           shortest run to see that all works: --rounds 1 --seconds 3 --warm 1 --backlog 5000 --keyring local
                    --grow-to 100000 --plant 10000
  --json            prints the result as JSON instead of tables
  --help            this text

Contestants: ${CONTESTANT_NAMES.join(' ')}
${Object.entries(CONTESTANT_GROUPS)
  .map(([group, names]) => `${group} stands for ${names.join(' ')}`)
  .join('\n')}
Parts of growth:
${Object.entries(GROWTH_PARTS)
  .map(([part, words]) => `  ${part.padEnd(16)}  ${words}`)
  .join('\n')}
Those that run at the rates of another need running beside them, or --maximum: ${CONTESTANT_NAMES.filter(isPaced).join(' ')}
`;
