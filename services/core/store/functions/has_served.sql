-- Whether the partition of a week has served its time. Rows of messages lie under the Monday on which their retention is
-- over. An idempotency generation goes when its youngest key is older than seven days.
create or replace function has_served(parent text, monday date, today date) returns boolean
language sql immutable parallel safe as $$
  select case parent when 'idempotency_keys' then monday + 14 < today else monday <= today end
$$;
