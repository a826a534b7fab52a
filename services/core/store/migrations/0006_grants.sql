-- A function is callable by whom it is granted to and nobody else.

revoke all on all functions in schema despatch from public;

grant execute on function current_tenant(), schema_version() to despatch_api, despatch_worker, despatch_controller;

grant execute on function
  accept(json, integer), store_content(uuid, timestamptz, integer, text), forget_content(uuid),
  take_rate(uuid, integer),
  claim_idempotency(bytea[], uuid[], bytea[], smallint, json[]),
  store_idempotent_response(bytea[], smallint[], json[], bytea[]),
  release_idempotency(bytea[]),
  find_tenant(uuid, text), find_callers(text[]), touch_api_keys(uuid[], timestamptz[]),
  sign_in(text, text, text, boolean, text), membership(uuid, text), memberships(uuid), user_facts(uuid),
  invite_user(text, text, text), count_owned_tenants(uuid), create_tenant(uuid, text, text, text, jsonb, uuid),
  list_tenants(uuid, timestamptz, uuid, integer), set_suspension(uuid, text, text),
  set_plan(uuid, text, jsonb), wake_waiting(uuid)
to despatch_api;

grant execute on function
  claim(uuid[], date[], text, integer, uuid[]),
  claim_due(uuid, integer, integer, text, integer, uuid[], boolean),
  waiting_messages(uuid, integer, integer), end_refused(uuid, date),
  load_content(uuid, date), settle_contents(integer),
  complete(json), apply_receipts(integer), due_tenants(),
  hold_tenant(uuid, integer), release_tenant(uuid, integer),
  load_providers(uuid[]), note_provider_result(uuid, integer, boolean, text), note_provider_health(uuid, text),
  take_verifications(integer), note_verification(uuid, integer, text, text),
  tenant_limits_of(uuid[]), backlog_totals(), partition_tasks(),
  make_partition(text, date), drop_partition(text, date), purge_rows()
to despatch_worker;
