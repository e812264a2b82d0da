-- What people query beside the plain events: transactions, functions to compare with, and room for what the program
-- makes from the config (a typed view per contract and event); and what a fork took off a chain.
--
-- `transaction` holds facts, as `block` and `event` do: only ever inserted, or removed by a rollback or a rewind. Its key
-- is the position and the hash, so that the same observation twice is one row. `orphaned_event` holds no facts: nothing
-- that is compared with a fresh index may be read from it, and an event that left its chain twice is there twice.

create table transaction (
  chain text collate "C" not null,
  height bigint not null,
  tx_index integer not null,
  tx_hash bytea not null,
  block_hash bytea not null,
  block_time timestamptz not null,
  success boolean,
  code bigint,
  from_address text,
  to_address text,
  value numeric,
  gas_wanted numeric,
  gas_used numeric,
  fee jsonb,
  memo text,
  primary key (chain, height, tx_index, tx_hash)
);
create index transaction_hash on transaction (tx_hash);

-- Two contents for one transaction are kept as those of an event are; null: it is the transaction itself.
alter table event_conflict alter column event_index drop not null;

-- Whether what a fork takes off the chain is kept. It stands here, and not in the config alone, since whoever carries out
-- a chain's part of a rewind may not know its config.
alter table chain add column keep_orphans boolean not null default false;

-- Exactly one of the two says what took it off: a rollback of its chain, or the forked chain's part of a rewind.
create table orphaned_event (
  id bigint generated always as identity primary key,
  chain text collate "C" not null references chain,
  height bigint not null,
  tx_index integer not null,
  event_index integer not null,
  tx_hash bytea not null,
  block_hash bytea not null,
  block_time timestamptz not null,
  contract text not null,
  address text,
  name text not null,
  args jsonb,
  topic0 bytea,
  topic1 bytea,
  topic2 bytea,
  topic3 bytea,
  data bytea not null,
  undecoded text,
  orphaned_at timestamptz not null default clock_timestamp(),
  rollback_id bigint references rollback,
  rewind_id uuid references rewind,
  constraint orphaned_by_one check (num_nonnulls(rollback_id, rewind_id) = 1)
);
create index orphaned_event_position on orphaned_event (chain, height);

-- The typed views that the program made, so that it replaces and drops only what is its own. `definition` is the digest of
-- the statements that made it.
create table typed_view (
  read_schema text collate "C" not null,
  name text collate "C" not null,
  definition text not null,
  primary key (read_schema, name)
);

-- Creating a schema asks for a right on the database even where the schema is there: who may make views in a schema that
-- another role made need not have it.
create function ensure_read_schema(views text) returns void language plpgsql as $$
begin
  if to_regnamespace(quote_ident(views)) is null then execute format('create schema %I', views); end if;
end $$;

do $patch$
declare
  made text := pg_get_functiondef('create_read_views'::regproc);
begin
  execute replace(made, $old$execute format('create schema if not exists %I', views)$old$,
    'perform ensure_read_schema(views)');
end $patch$;

-- Beside `create_read_views`: what every deployment has, whatever its config. Functions that people call stand in the read
-- schema, since a reader need not be let into the schema of the tables.
create function create_query_views(tables text, views text) returns void language plpgsql as $$
begin
  execute format($view$
    create or replace view %2$I.transactions as
    select t.chain, t.height, t.tx_index, t.block_hash, t.block_time, t.tx_hash, t.success, t.code, t.from_address,
      t.to_address, t.value, t.gas_wanted, t.gas_used, t.fee, t.memo
    from %1$I.transaction t
    where not exists (select from %1$I."_global" g where g.key = 'rewind_timestamp_' || t.chain
      and t.height >= (g.value ->> 'from')::bigint) $view$, tables, views);
  execute format('comment on view %I.transactions is %L', views,
    'Transactions that hold a stored event, of chains with "transactions: true". Hides what a running rewind takes away.');
  execute format('comment on column %I.transactions.success is %L', views,
    'Null where the chain does not say (Ethereum before Byzantium).');
  execute format('comment on column %I.transactions.code is %L', views, 'Cosmos: 0 for success. EVM: null.');
  execute format('comment on column %I.transactions.from_address is %L', views,
    'EVM: lower-case, compare with address(''0x…''). Cosmos: null.');
  execute format('comment on column %I.transactions.to_address is %L', views,
    'EVM: lower-case; null where a contract was created. Cosmos: null.');
  execute format('comment on column %I.transactions.value is %L', views, 'EVM: wei, exact. Cosmos: null.');
  execute format('comment on column %I.transactions.gas_wanted is %L', views, 'EVM: the gas limit.');
  execute format('comment on column %I.transactions.fee is %L', views, 'Cosmos: coins as [{denom, amount}]. EVM: null.');

  -- In plpgsql, since only that can raise; called for what is no address alone, so that "address" itself is inlined.
  execute format($function$
    create or replace function %1$I.no_address(given text) returns text immutable language plpgsql as $body$
    begin
      raise exception '"%%" is no address.', given
        using errcode = 'invalid_parameter_value', hint = 'An address is 0x and 40 hex digits, in any case.';
    end $body$ $function$, views);
  execute format('comment on function %I.no_address(text) is %L', views, 'Raises the error of "address".');
  -- A single expression, not strict, immutable: what PostgreSQL needs to inline it, so that indexes are used.
  execute format($function$
    create or replace function %1$I.address(given text) returns text immutable parallel safe language sql as $body$
      select case when given is null then null when given ~ '^0x[0-9a-fA-F]{40}$' then lower(given)
        else %1$I.no_address(given) end $body$ $function$, views);
  execute format('comment on function %I.address(text) is %L', views,
    'An EVM address as columns hold it: in lower case. Refuses what is not 0x and 40 hex digits. The checksum of mixed case '
      'is not checked: PostgreSQL has no keccak-256.');

  -- 1111808 is 0x10F700: see storable-text.ts. A sub-select, so it is not inlined: "convert_to" is only called stable
  -- because conversions can be replaced, and this one gives the same bytes for ever.
  execute format($function$
    create or replace function %1$I.text_bytes(given text) returns bytea immutable strict parallel safe language sql as $body$
      select coalesce(string_agg(case when ascii(c) between 1111808 and 1112063
          then set_byte('\x00'::bytea, 0, ascii(c) - 1111808) else convert_to(c, 'UTF8') end, ''::bytea order by n), ''::bytea)
      from string_to_table(given, null) with ordinality chars (c, n) $body$ $function$, views);
  execute format('comment on function %I.text_bytes(text) is %L', views,
    'The bytes that the chain holds for a text. A byte NN that no text can hold is stored as the character U+10F7NN.');
end $$;
