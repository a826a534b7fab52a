-- Deletes the contents of those of these messages whose sender asked for that once no provider needs them any more.
create or replace function discard_contents(seqs bigint[], days date[]) returns void
language sql set search_path = despatch, pg_temp as $$
  with emptied as (
    update messages m set content = null from unnest(seqs, days) as u (seq, day)
    where m.seq = u.seq and m.purge_on = u.day and m.content_retention = 'discard'
    returning m.seq, m.purge_on
  )
  delete from message_contents c using emptied e where c.message_seq = e.seq and c.purge_on = e.purge_on
$$;
