import type { Sql } from '#core/platform/postgres/postgres.ts';

export type PlantedResult = {
  readonly status: string;
  readonly final?: boolean;
  readonly attempt?: number;
  readonly accountId?: string | undefined;
  readonly provider?: string;
  readonly providerMessageId?: string;
  readonly failure?: object;
};

/** Leaves an accepted message in the state that a worker leaves after it finished it. */
export async function plantResult(admin: Sql, id: string, result: PlantedResult): Promise<void> {
  const { status, final = false, attempt = 1, accountId = null, provider = null } = result;
  const { providerMessageId = null, failure = null } = result;
  const planted = await admin`
    with ended as (
      delete from live_messages l using messages m where m.id = ${id} and l.seq = m.seq returning l.*
    )
    insert into message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, account_id, provider,
      provider_message_id, failure, final, expires_at, updated_at)
    select seq, purge_on, tenant_id, ${status}, ${attempt}, duplicate_risk, ${accountId}, ${provider},
      ${providerMessageId}, ${failure === null ? null : admin.json(failure as never)}, ${final}, expires_at, updated_at
    from ended`;
  if (planted.count !== 1) throw new Error('no such message waits');
}

/** Stores an attempt that ended without acceptance, and the state in which it left the message. */
export async function plantAttempt(
  admin: Sql,
  id: string,
  attempt: {
    readonly number: number;
    readonly outcome: string;
    readonly status: string;
    readonly accountId: string;
    readonly provider: string;
    readonly failure: object;
    /** The account that it was rerouted to; absent: it was not rerouted. */
    readonly rerouted?: object;
    /** The reason of the state in which it left the message; absent: none. */
    readonly mark?: string;
  },
): Promise<void> {
  const { number, outcome, status, accountId, provider, rerouted, mark = null } = attempt;
  const failure = admin.json(attempt.failure as never);
  await admin`
    insert into attempt_log (message_seq, purge_on, number, tenant_id, account_id, provider, worker, outcome,
      http_status, failure, started_at, ended_at, message_status, message_reason, message_failure, rerouted)
    select seq, purge_on, ${number}, tenant_id, ${accountId}, ${provider}, 0, ${outcome},
      400, ${failure}, now(), now(), ${status}, ${mark}, ${failure},
      ${rerouted === undefined ? null : admin.json(rerouted as never)}
    from messages where id = ${id}`;
}
