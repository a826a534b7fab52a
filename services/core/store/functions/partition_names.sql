create or replace function partition_names() returns table (parent text, options text) language sql immutable as $$
  values ('messages', ''), ('message_results', ' with (fillfactor = 80)'), ('attempt_log', ''), ('event_log', ''),
    ('message_contents', ''), ('idempotency_keys', '')
$$;
