-- Returns the slot that a counter's row has after its next change, by its slot and the `uses` of it before (ADR 25).
create or replace function next_slot(slot bigint, uses integer) returns bigint language sql immutable parallel safe as $$
  select slot + (uses >= uses_per_slot())::integer
$$;
