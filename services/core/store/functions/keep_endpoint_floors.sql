-- Stores, before rows purged by `today` are deleted from this partition, the highest number of each endpoint's feed in it, and
-- how far the tenant's feed is matched there.
create or replace function keep_endpoint_floors(of_partition regclass, today date) returns void
language plpgsql set search_path = despatch, pg_temp set enable_seqscan = off as $$
begin
  execute format($sql$
    with floor as materialized (
      -- In the order in which completions lock them, to avoid deadlocks.
      select e.id, f.last_seq, f.feed_seq
      from webhook_endpoints e cross join lateral (
        select x.last_seq, x.feed_seq from %s x where x.endpoint_id = e.id and x.purge_on <= $1 order by x.last_seq desc limit 1) f
      where e.deleted_at is null and (e.purged_to < f.last_seq or e.matched_to < f.feed_seq)
      order by e.id for no key update of e
    )
    update webhook_endpoints w set purged_to = greatest(w.purged_to, f.last_seq), matched_to = greatest(w.matched_to, f.feed_seq)
    from floor f where w.id = f.id
  $sql$, of_partition) using today;
end $$;
