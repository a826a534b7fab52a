-- Ends messages that wait for a call, as none will be made. Returns those that were still waiting.
create or replace function end_messages(seqs bigint[], to_status text, of_failure jsonb) returns setof bigint
language sql security definer set search_path = despatch, pg_temp as $$
  select end_live(seqs, '{queued,deferred}', to_status, of_failure)
$$;

grant execute on function end_messages(bigint[], text, jsonb) to despatch_worker;
