-- What a chain's facts were indexed under, so that a changed config is noticed and honoured; and the contracts that
-- factories created.
--
-- Facts cover every filter of `chain_filter` from the chain's start to its checkpoint, save the heights that are
-- `pending` in `backfill_ranges` under that filter: a gap, which the chain's worker fills while it goes on. A filter that
-- leaves the config takes its facts with it, in the transaction that removes it here.

create table chain_filter (
  chain text collate "C" not null references chain,
  -- Digest of all that decides its facts (`filtersOf` of the config); or the one word for "every block".
  filter text not null,
  -- Order in the config: a log that fits two filters belongs to the first.
  place integer not null,
  contract text not null,
  event text not null,
  -- `event.name` of its facts; null: any of its contract.
  name text,
  -- What it looks for, coarsely: tells which filters may take a log from each other.
  selection jsonb not null,
  primary key (chain, filter)
);

-- The audit of changed configs, kept for ever.
create table config_change (
  id bigint generated always as identity primary key,
  chain text collate "C" not null references chain,
  start_before bigint not null,
  start_after bigint not null,
  -- `contract event` of what came, what is fetched again since other filters stood before it, and what went.
  added text[] not null,
  refetched text[] not null,
  removed text[] not null,
  blocks_removed bigint not null,
  events_removed bigint not null,
  contracts_removed bigint not null,
  changed_at timestamptz not null default clock_timestamp()
);

-- Facts: contracts that a factory created, each with the position of the first event that tells of it.
create table contract_registry (
  chain text collate "C" not null references chain,
  contract text not null,
  address text not null,
  height bigint not null,
  tx_index integer not null,
  event_index integer not null,
  primary key (chain, contract, address)
);
create index contract_registry_height on contract_registry (chain, height);

create function create_contract_view(tables text, views text) returns void language plpgsql as $$
begin
  execute format($view$
    create or replace view %2$I.contracts as
    select t.chain, t.contract, t.address, t.height, t.tx_index, t.event_index from %1$I.contract_registry t
    where not exists (select from %1$I."_global" g where g.key = 'rewind_timestamp_' || t.chain
      and t.height >= (g.value ->> 'from')::bigint) $view$, tables, views);
  execute format('comment on view %I.contracts is %L', views,
    'Contracts that factories created. Hides what a running rewind takes away, from its request on.');
end $$;
