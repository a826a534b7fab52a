-- Deletes at most `most` rows (null: all) of one table that belong to these endpoints: due deliveries, calls, feeds, heads,
-- in this order. Returns how many rows it found, even if another transaction deleted them first: 0 means that none are left.
create or replace function purge_endpoint_rows(endpoints uuid[], most integer) returns integer
language plpgsql set search_path = despatch, pg_temp set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  due bigint[];
  n integer;
begin
  due := array(select d.id from due_deliveries d where d.endpoint_id = any (endpoints) limit most);
  if cardinality(due) > 0 then
    -- In the order in which completions lock them, to avoid deadlocks. A row that was being completed counts too, because another
    -- row may have replaced it.
    delete from due_deliveries d where d.id = any (array(
      select x.id from due_deliveries x where x.id = any (due) order by x.id for update));
    return cardinality(due);
  end if;
  delete from delivery_attempts a using (
    select x.endpoint_id, x.seq, x.attempt, x.purge_on from delivery_attempts x where x.endpoint_id = any (endpoints) limit most
  ) k where (a.endpoint_id, a.seq, a.attempt, a.purge_on) = (k.endpoint_id, k.seq, k.attempt, k.purge_on);
  get diagnostics n = row_count;
  if n > 0 then
    return n;
  end if;
  delete from endpoint_feed f using (
    select x.endpoint_id, x.last_seq, x.purge_on from endpoint_feed x where x.endpoint_id = any (endpoints) limit most
  ) k where (f.endpoint_id, f.last_seq, f.purge_on) = (k.endpoint_id, k.last_seq, k.purge_on);
  get diagnostics n = row_count;
  if n > 0 then
    return n;
  end if;
  delete from endpoint_heads h using (
    select x.endpoint_id, x.feed_seq, x.last_seq from endpoint_heads x where x.endpoint_id = any (endpoints) limit most
  ) k where (h.endpoint_id, h.feed_seq, h.last_seq) = (k.endpoint_id, k.feed_seq, k.last_seq);
  get diagnostics n = row_count;
  return n;
end $$;
