-- The first of these messages, in their order, whose contents come to no more than `bytes_max` together, and one at least; null
-- where there are none. Contents so small that nobody counts them are not: there are no more of them than a claim may take.
create or replace function within_bytes(seqs bigint[], bytes_max integer) returns bigint[]
language sql stable set search_path = despatch, pg_temp as $$
  select array_agg(x.seq order by x.n) from (
    select o.seq, o.n, sum(l.content_bytes) over (order by o.n) as reach
    from unnest(seqs) with ordinality as o (seq, n) join live_messages l on l.seq = o.seq
  ) x where x.n = 1 or coalesce(x.reach, 0) <= bytes_max
$$;
