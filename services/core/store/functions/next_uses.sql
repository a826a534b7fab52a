-- Returns the `uses` that a counter's row has after its next change: a row that moves to the next slot begins at 1 (`next_slot`).
create or replace function next_uses(uses integer) returns smallint language sql immutable parallel safe as $$
  select (case when uses >= uses_per_slot() then 1 else uses + 1 end)::smallint
$$;
