-- Returns the first of these messages, in their order, whose contents together take no more than `bytes_max`, and at least one
-- message; null if there are none. Contents too small to have their bytes stored do not count: a claim limits the number of
-- messages anyway.
create or replace function within_bytes(seqs bigint[], bytes_max integer) returns bigint[]
language sql stable set search_path = despatch, pg_temp as $$
  select array_agg(x.seq order by x.n) from (
    select o.seq, o.n, sum(l.content_bytes) over (order by o.n) as reach
    from unnest(seqs) with ordinality as o (seq, n) join live_messages l on l.seq = o.seq
  ) x where x.n = 1 or coalesce(x.reach, 0) <= bytes_max
$$;
