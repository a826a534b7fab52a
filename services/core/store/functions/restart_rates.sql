-- Restarts the measurement of a channel's rates: neither the messages that were final until now nor reports about them count. How
-- many became final in each hour stays, because a slowed channel's speed follows from it.
create or replace function restart_rates(of_tenant uuid, of_channel text) returns void
language sql set search_path = despatch, pg_temp set enable_seqscan = off as $$
  delete from final_stretches s where s.tenant_id = of_tenant and s.channel = of_channel;
  update final_hours h set rated = 0, hard_bounces = 0, complaints = 0
  where h.tenant_id = of_tenant and h.channel = of_channel and (h.rated, h.hard_bounces, h.complaints) <> (0, 0, 0);
$$;
