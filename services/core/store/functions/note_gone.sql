create or replace function note_gone(of_uid text) returns void language sql as $$
  delete from gone_resources where gone_at < now() - interval '90 days';
  insert into gone_resources (uid) values (of_uid) on conflict do nothing;
$$;
