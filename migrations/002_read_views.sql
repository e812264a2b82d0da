-- What people query: views in the read schema, over the tables.
--
-- One picture (promise 4): from a rewind's request on, a view hides exactly what goes, on all chains at once, though the
-- rows themselves go chain by chain. It does so by an anti-join on `_global`, which a statement reads in the same
-- snapshot as the rows: no flag per row, and nothing to keep in step. A `from` of null means that nothing goes; the
-- comparison with it is null, so the row stays.
--
-- The read schema's name comes from the config, so the views are made by a function that `lockstep migrate` calls. Each
-- name inside is qualified with the schema of the tables: views keep what they were made with.

create function create_read_views(tables text, views text) returns void language plpgsql as $$
declare
  hidden text := format(
    'not exists (select from %I."_global" g where g.key = ''rewind_timestamp_'' || t.chain'
      || ' and t.height >= (g.value ->> ''from'')::bigint)', tables);
begin
  execute format('create schema if not exists %I', views);

  execute format($view$
    create or replace view %2$I.blocks as
    select t.chain, t.height, t.hash, t.parent_hash, t.block_time from %1$I.block t where %3$s $view$, tables, views, hidden);
  execute format('comment on view %I.blocks is %L', views,
    'Stored blocks. Hides what a running rewind takes away, from its request on.');

  execute format($view$
    create or replace view %2$I.events as
    select t.chain, t.height, t.tx_index, t.event_index, t.block_hash, t.block_time, t.tx_hash, t.contract, t.address,
      t.name, t.args, t.topic0, t.topic1, t.topic2, t.topic3, t.data, t.undecoded
    from %1$I.event t where %3$s $view$, tables, views, hidden);
  execute format('comment on view %I.events is %L', views,
    'Stored events. Hides what a running rewind takes away, from its request on.');

  -- During a rewind the published height is where the chain goes back to, not where its rows still are.
  execute format($view$
    create or replace view %2$I.status as
    select c.chain,
      (select (value #>> '{}')::bigint from %1$I."_global" where key = 'epoch') as epoch,
      case when (g.value ->> 'from')::bigint <= p.height
        then nullif((g.value ->> 'from')::bigint - 1, c.start_height - 1) else p.height end as height,
      (g.key is not null) as rewinding,
      exists (select from %1$I."_global" where key in ('rewind_lock', 'pause')) as paused
    from %1$I.chain c join %1$I.checkpoint p using (chain)
      left join %1$I."_global" g on g.key = 'rewind_timestamp_' || c.chain $view$, tables, views);
  execute format('comment on view %I.status is %L', views,
    'Each chain''s published height, and the epoch: answers with equal epochs belong together.');
end $$;
