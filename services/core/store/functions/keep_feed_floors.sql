-- Remembers the highest numbers of feeds in this partition, which is about to lose rows that are purged by `today`.
create or replace function keep_feed_floors(of_partition regclass, today date) returns void
language plpgsql set search_path = despatch, pg_temp set enable_seqscan = off as $$
begin
  execute format($sql$
    insert into feed_floors as o (tenant_id, last_seq)
    select t.id, f.last_seq from tenants t cross join lateral (
      select x.last_seq from %s x where x.tenant_id = t.id and x.purge_on <= $1 order by x.last_seq desc limit 1) f
    on conflict (tenant_id) do update set last_seq = excluded.last_seq where o.last_seq < excluded.last_seq
  $sql$, of_partition) using today;
end $$;
