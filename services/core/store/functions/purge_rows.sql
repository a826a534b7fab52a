-- Deletes at most `most` rows of one of `purged_tables` that are no longer needed. Returns how many; a number below `most` means
-- that none are left. Fails soon if another session has locked the table, so that the others are not kept waiting.
create or replace function purge_rows(of_table text, most integer) returns integer
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off set lock_timeout = '1s' as $$
declare
  today constant date := (now() at time zone 'UTC')::date;
  of_parent text;
  found_any boolean;
  unsettled date[] := '{}';
  n integer;
begin
  case of_table
    when 'due_deliveries' then
      -- Deliveries of events that have been dropped: their endpoints were paused or failing until then. Those of a day that is
      -- kept so that endpoints are told how its messages ended stay with it.
      if exists (select from due_deliveries x where has_served('endpoint_feed', x.purge_on, today)) then
        unsettled := array(select unsettled_days());
      end if;
      delete from due_deliveries d where d.id = any (array(
        select x.id from due_deliveries x where has_served('endpoint_feed', x.purge_on, today) and x.purge_on <> all (unsettled)
        order by x.purge_on limit most for update skip locked));
    when 'webhook_endpoints' then
      return purge_deleted_endpoints(most, today);
    when 'suppressions' then
      -- An expired entry is kept for a day, so that people can still look it up.
      delete from suppressions s where s.seq = any (array(
        select x.seq from suppressions x where x.expires_at < now() - interval '1 day'
        order by x.expires_at limit most for update skip locked));
    when 'receipt_calls' then
      -- Calls that arrived while the tenant was being purged.
      delete from receipt_calls c where c.id = any (array(
        with recursive accounts as (
          -- Hops from account to account over the index, however many calls each has.
          (select x.account_id from receipt_calls x order by x.account_id limit 1)
          union all
          select (select x.account_id from receipt_calls x where x.account_id > a.account_id order by x.account_id limit 1)
          from accounts a where a.account_id is not null
        )
        select x.id from accounts a join receipt_calls x on x.account_id = a.account_id
        where not exists (select from provider_accounts p where p.id = a.account_id) limit most));
    -- What records name is kept for 25 months, longer than any record: a message may be scheduled 365 days ahead and be postponed
    -- by 7, is kept for 365 days, and up to 6 more until a Monday, which makes 743 days.
    when 'workers' then
      -- No recorded attempt names them any more. A worker that is still running gets a new number.
      delete from workers w where w.id = any (array(
        select x.id from workers x where x.first_claim_at < now() - interval '25 months' limit most));
    when 'routes' then
      -- Every message that this version routed is gone.
      delete from routes r where r.ctid = any (array(
        select x.ctid from routes x where x.replaced_at < now() - interval '25 months' limit most));
    when 'provider_accounts' then
      -- Deleted for an hour, so that no process has a copy of them: those without a message are left out of every look for lanes.
      -- They go after the last record that names them.
      update provider_accounts p set emptied_at = now() where p.id = any (array(
        select x.id from provider_accounts x
        where x.status = 'deleted' and x.emptied_at is null and x.updated_at < now() - interval '1 hour'
          and (select true from live_messages l where l.tenant_id = x.tenant_id and l.account_id = x.id limit 1) is null
        order by x.id limit most for update skip locked));
      get diagnostics n = row_count;
      if n = most then
        return n;
      end if;
      delete from provider_accounts p where p.id = any (array(
        select x.id from provider_accounts x where x.emptied_at < now() - interval '25 months'
        order by x.emptied_at limit most for update skip locked));
    when 'rate_windows' then
      delete from rate_windows r where r.ctid = any (array(
        select x.ctid from rate_windows x where x.second < extract(epoch from now())::bigint - 3600
        limit most for update skip locked));
    when 'counter_locks' then
      -- Lock rows whose owner no longer exists.
      delete from counter_locks c where c.ctid = any (array(
        select x.ctid from counter_locks x where not exists (select from tenants t where t.id = x.owner)
          and not exists (select from users u where u.id = x.owner) and not exists (select from api_keys k where k.id = x.owner)
          and not exists (select from provider_accounts p where p.id = x.owner) limit most));
    when 'account_rates' then
      delete from account_rates r where r.ctid = any (array(
        select x.ctid from account_rates x where not exists (select from provider_accounts p where p.id = x.account_id)
          and not exists (select from webhook_endpoints w where w.id = x.account_id and w.deleted_at is null) limit most));
    when 'usage_counts' then
      delete from usage_counts u where u.ctid = any (array(
        select x.ctid from usage_counts x where x.period < now() - interval '13 months' order by x.period limit most));
    when 'usage_times' then
      delete from usage_times u where u.ctid = any (array(
        select x.ctid from usage_times x where x.period < now() - interval '13 months' order by x.period limit most));
    when 'account_counts' then
      delete from account_counts c where c.ctid = any (array(
        select x.ctid from account_counts x where x.period < now() - interval '25 hours' order by x.period limit most));
    else
      select p.parent into strict of_parent from partition_names() p where p.parent || '_default' = of_table;
      execute format('select exists (select from %I x where has_served(%L, x.%I, $1))', of_table, of_parent,
        partition_key(of_parent)) into found_any using today;
      if not found_any then
        return 0;
      end if;
      if partition_key(of_parent) = 'purge_on' then
        unsettled := array(select unsettled_days());
      end if;
      execute format('delete from %1$I d where d.ctid = any (array(
          select x.ctid from %1$I x where has_served(%2$L, x.%3$I, $1) and x.%3$I <> all ($3) limit $2))',
        of_table, of_parent, partition_key(of_parent)) using today, most, unsettled;
  end case;
  get diagnostics n = row_count;
  return n;
end $$;

grant execute on function purge_rows(text, integer) to despatch_worker;
