-- Deletes what has served its time and lies in no partition of its own.
create or replace function purge_rows() returns void
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  today date := (now() at time zone 'UTC')::date;
begin
  delete from messages_default where has_served('messages', purge_on, today);
  delete from message_results_default where has_served('message_results', purge_on, today);
  delete from awaited_receipts where has_served('messages', purge_on, today);
  delete from lookups where has_served('messages', purge_on, today);
  delete from receipts where has_served('messages', purge_on, today);
  delete from message_contents_default where has_served('message_contents', purge_on, today);
  delete from attempt_log_default where has_served('attempt_log', purge_on, today);
  delete from event_log_default where has_served('event_log', purge_on, today);
  delete from idempotency_keys_default where has_served('idempotency_keys', generation, today);
  -- Calls that came while the tenant was being purged.
  delete from receipt_calls c where not exists (select from provider_accounts p where p.id = c.account_id);
  delete from rate_windows where second < extract(epoch from now())::bigint - 3600;
end $$;

grant execute on function purge_rows() to despatch_worker;
