-- Names events for the feed (`changes`), in the transaction that stored them and after its last lock. `of_numbers`: event
-- numbers, negative for attempts; null for acceptances. Events of one message must be passed in their order.
create or replace function note_changes(of_tenants uuid[], of_seqs bigint[], of_days date[], of_numbers bigint[]) returns void
language sql set search_path = despatch, pg_temp as $$
  with event as materialized (
    select * from unnest(of_tenants, of_seqs, of_days, of_numbers) with ordinality as u (tenant_id, seq, day, number, nth)
  ), owner as (
    select e.tenant_id, count(*)::integer as n from event e group by e.tenant_id
  )
  insert into changes (tenant_ids, counts, seqs, purge_ons, numbers)
  select o.tenant_ids, o.counts, e.seqs, e.days, case when of_numbers is not null then e.numbers end
  from (
    select array_agg(x.tenant_id order by x.tenant_id) as tenant_ids, array_agg(x.n order by x.tenant_id) as counts from owner x
  ) o, (
    select array_agg(x.seq order by x.tenant_id, x.nth) as seqs, array_agg(x.day order by x.tenant_id, x.nth) as days,
      array_agg(x.number order by x.tenant_id, x.nth) as numbers
    from event x
  ) e
  where o.tenant_ids is not null
$$;
