import { healsItself, type Fault } from './fault.ts';

const CONNECTIONS = 'despatch-%';
const SEGMENTS_MAX = 24;
const NO_DISK = 'a disk can be mounted by root on Linux only';

export const POSTGRES_FAULTS: readonly Fault[] = [
  {
    name: 'postgres-crash',
    async inject({ rig: { postgres }, random }) {
      await postgres.stop('immediate');
      return { target: 'postgres', holdMs: random.whole(0, 1_500), heal: () => postgres.restart() };
    },
  },
  {
    name: 'postgres-backend-killed',
    async inject({ rig }) {
      const [backend] = await rig.ask(
        (sql) => sql<{ pid: number }[]>`
        select pid from pg_stat_activity where application_name like ${CONNECTIONS} order by random() limit 1`,
      );
      if (backend === undefined) return { notRun: 'no service was connected' };
      // Postgres ends all other backends too, because the killed one may have corrupted shared memory.
      process.kill(backend.pid, 'SIGKILL');
      return { target: 'postgres', holdMs: 1_000, heal: healsItself };
    },
  },
  {
    name: 'postgres-backends-terminated',
    async inject({ rig }) {
      await rig.ask(
        (sql) =>
          sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name like ${CONNECTIONS}`,
      );
      return { target: 'postgres', holdMs: 500, heal: healsItself };
    },
  },
  {
    name: 'postgres-connections-reset',
    async inject({ rig: { apis, workers }, random }) {
      const node = random.pick([...apis, ...workers]);
      node.database.cut();
      return { target: node.service.name, holdMs: 500, heal: healsItself };
    },
  },
  {
    name: 'postgres-silent',
    async inject({ rig: { apis, workers }, random }) {
      const node = random.pick([...apis, ...workers]);
      node.database.freeze();
      return {
        target: node.service.name,
        holdMs: random.whole(500, 5_000),
        heal: () => node.database.thaw(),
      };
    },
  },
  {
    name: 'postgres-power-lost',
    async inject({ rig: { walDisk }, random }) {
      if (walDisk === null) return { notRun: NO_DISK };
      await walDisk.losePower();
      return { target: 'postgres', holdMs: random.whole(0, 1_500), heal: walDisk.regainPower };
    },
  },
  {
    name: 'disk-full',
    async inject({ rig: { ask, postgres, walDisk } }) {
      if (walDisk === null) return { notRun: NO_DISK };
      await walDisk.fill();
      // Segments that already exist can hold the log for a while.
      for (let i = 0; i < SEGMENTS_MAX; i++) {
        const isWritten = await ask(
          (sql) => sql`select pg_logical_emit_message(false, 'fill', 'x'), pg_switch_wal()`,
        ).then(
          () => true,
          () => false,
        );
        if (!isWritten) break;
      }
      return {
        target: 'postgres',
        holdMs: 1_500,
        async heal() {
          await walDisk.free();
          await postgres.restart('immediate');
        },
      };
    },
  },
];
