-- Takes turns of a slowed channel for messages in their order, one per `gap_ms`; all workers share them. Unused turns accumulate
-- for ten seconds, because a lane may not be looked at more often. Returns the messages that got a turn; none while another
-- worker takes turns, so that no worker waits for another. A turn further ahead than one gap means that the clock has gone back.
create or replace function take_brake_turns(of_tenant uuid, of_channel text, seqs bigint[]) returns bigint[]
language plpgsql set search_path = despatch, pg_temp as $$
declare
  brake brakes;
  at_now timestamptz;
  turn_at timestamptz;
  gap interval;
  turns integer;
begin
  select * into brake from brakes b
  where b.tenant_id = of_tenant and b.channel = of_channel and b.level = 'slowed' for update skip locked;
  at_now := clock_timestamp();
  gap := make_interval(secs => brake.gap_ms / 1000);
  turn_at := case when brake.next_at > at_now + gap then at_now else greatest(brake.next_at, at_now - interval '10 seconds') end;
  if brake.level is null or turn_at > at_now then
    return '{}';
  end if;
  turns := least(cardinality(seqs), 1 + floor(1000 * extract(epoch from at_now - turn_at) / brake.gap_ms));
  update brakes b set next_at = turn_at + turns * gap
  where b.tenant_id = of_tenant and b.channel = of_channel;
  return seqs[1:turns];
end $$;
