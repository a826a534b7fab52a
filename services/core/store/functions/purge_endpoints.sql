-- Deletes endpoints with all their rows. A worker writes rows of an endpoint only while it holds a lock on the endpoint's row or
-- on one of its due rows: once these locks have been waited for, no more rows can follow.
create or replace function purge_endpoints(endpoints uuid[]) returns void
language plpgsql set search_path = despatch, pg_temp set enable_seqscan = off as $$
begin
  perform from webhook_endpoints w where w.id = any (endpoints) order by w.id for update;
  delete from webhook_endpoints w where w.id = any (endpoints);
  while purge_endpoint_rows(endpoints, null) > 0 loop
  end loop;
  delete from account_rates r where r.account_id = any (endpoints);
end $$;
