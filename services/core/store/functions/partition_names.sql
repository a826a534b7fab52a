create or replace function partition_names() returns table (parent text, options text) language sql immutable as $$
  values ('messages', ''), ('message_results', ' with (fillfactor = 80)'), ('attempt_log', ''), ('event_log', ''),
    ('message_contents', ''), ('tenant_events', ''), ('feed', ' with (toast_tuple_target = 8160)'),
    ('endpoint_feed', ' with (toast_tuple_target = 8160)'), ('delivery_attempts', ''), ('idempotency_keys', '')
$$;
