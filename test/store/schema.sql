table _global (
  key character varying(255) not null
  value jsonb
  "createdAt" timestamp(6) with time zone not null
  "updatedAt" timestamp(6) with time zone not null
  constraint _global_pkey PRIMARY KEY (key)
)

table backfill_ranges (
  chain text collate "C" not null
  filter text not null
  from_height bigint not null
  to_height bigint not null
  status text not null
  attempts integer not null default 0
  constraint backfill_ranges_rising CHECK ((from_height <= to_height))
  constraint backfill_ranges_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'running'::text, 'done'::text, 'failed'::text])))
  constraint backfill_ranges_chain_fkey FOREIGN KEY (chain) REFERENCES chain(chain)
  constraint backfill_ranges_pkey PRIMARY KEY (chain, filter, from_height)
)

table block (
  chain text collate "C" not null
  height bigint not null
  hash bytea not null
  parent_hash bytea
  block_time timestamp with time zone not null
  constraint block_pkey PRIMARY KEY (chain, height)
)
CREATE INDEX block_time ON block USING btree (chain, block_time, height)

table chain (
  chain text collate "C" not null
  kind text not null
  chain_id text not null
  start_height bigint not null
  filter_digest text not null
  times_fell boolean not null default false
  registered_at timestamp with time zone not null default clock_timestamp()
  keep_orphans boolean not null default false
  constraint chain_key CHECK ((chain ~ '^[a-z][a-z0-9_-]{0,31}$'::text))
  constraint chain_kind_check CHECK ((kind = ANY (ARRAY['evm'::text, 'cosmos'::text])))
  constraint chain_start_height_check CHECK ((start_height >= 0))
  constraint chain_pkey PRIMARY KEY (chain)
)

table chain_filter (
  chain text collate "C" not null
  filter text not null
  place integer not null
  contract text not null
  event text not null
  name text
  selection jsonb not null
  constraint chain_filter_chain_fkey FOREIGN KEY (chain) REFERENCES chain(chain)
  constraint chain_filter_pkey PRIMARY KEY (chain, filter)
)

table chain_status (
  chain text collate "C" not null
  phase text not null
  reason text
  head_height bigint
  head_time timestamp with time zone
  finalized_height bigint
  end_height bigint
  blocks_per_second double precision
  events_per_second double precision
  updated_at timestamp with time zone not null
  backfill_blocks_per_second double precision
  constraint chain_status_chain_fkey FOREIGN KEY (chain) REFERENCES chain(chain)
  constraint chain_status_pkey PRIMARY KEY (chain)
)

table checkpoint (
  chain text collate "C" not null
  height bigint
  hash bytea
  block_time timestamp with time zone
  token bigint not null default 0
  holder text
  constraint checkpoint_height_check CHECK ((height >= 0))
  constraint checkpoint_whole CHECK ((num_nulls(height, hash, block_time) = ANY (ARRAY[0, 3])))
  constraint checkpoint_chain_fkey FOREIGN KEY (chain) REFERENCES chain(chain)
  constraint checkpoint_pkey PRIMARY KEY (chain)
)

table config_change (
  id bigint not null generated always as identity
  chain text collate "C" not null
  start_before bigint not null
  start_after bigint not null
  added text[] not null
  refetched text[] not null
  removed text[] not null
  blocks_removed bigint not null
  events_removed bigint not null
  contracts_removed bigint not null
  changed_at timestamp with time zone not null default clock_timestamp()
  constraint config_change_chain_fkey FOREIGN KEY (chain) REFERENCES chain(chain)
  constraint config_change_pkey PRIMARY KEY (id)
)

table contract_registry (
  chain text collate "C" not null
  contract text not null
  address text not null
  height bigint not null
  tx_index integer not null
  event_index integer not null
  constraint contract_registry_chain_fkey FOREIGN KEY (chain) REFERENCES chain(chain)
  constraint contract_registry_pkey PRIMARY KEY (chain, contract, address)
)
CREATE INDEX contract_registry_height ON contract_registry USING btree (chain, height)

table event (
  chain text collate "C" not null
  height bigint not null
  tx_index integer not null
  event_index integer not null
  tx_hash bytea not null
  block_hash bytea not null
  block_time timestamp with time zone not null
  contract text not null
  address text
  name text not null
  args jsonb
  topic0 bytea
  topic1 bytea
  topic2 bytea
  topic3 bytea
  data bytea not null
  undecoded text
  constraint event_decoded CHECK (((args IS NULL) = (undecoded IS NOT NULL)))
  constraint event_pkey PRIMARY KEY (chain, height, tx_index, event_index, tx_hash)
) partition by LIST (chain)

table event_conflict (
  id bigint not null generated always as identity
  chain text collate "C" not null
  height bigint not null
  tx_index integer not null
  event_index integer
  tx_hash bytea not null
  stored jsonb not null
  observed jsonb not null
  seen_at timestamp with time zone not null default clock_timestamp()
  constraint event_conflict_pkey PRIMARY KEY (id)
)

table header (
  chain text collate "C" not null
  height bigint not null
  hash bytea not null
  parent_hash bytea
  block_time timestamp with time zone not null
  constraint header_pkey PRIMARY KEY (chain, height)
)
CREATE INDEX header_time ON header USING btree (chain, block_time, height)

table lease (
  name text collate "C" not null
  holder text
  token bigint not null default 0
  acquired_at timestamp with time zone
  expires_at timestamp with time zone
  constraint lease_whole CHECK (((holder IS NULL) = (expires_at IS NULL)))
  constraint lease_pkey PRIMARY KEY (name)
)

table migration (
  name text collate "C" not null
  sha256 text not null
  applied_at timestamp with time zone not null default clock_timestamp()
  constraint migration_pkey PRIMARY KEY (name)
)

table orphaned_event (
  id bigint not null generated always as identity
  chain text collate "C" not null
  height bigint not null
  tx_index integer not null
  event_index integer not null
  tx_hash bytea not null
  block_hash bytea not null
  block_time timestamp with time zone not null
  contract text not null
  address text
  name text not null
  args jsonb
  topic0 bytea
  topic1 bytea
  topic2 bytea
  topic3 bytea
  data bytea not null
  undecoded text
  orphaned_at timestamp with time zone not null default clock_timestamp()
  rollback_id bigint
  rewind_id uuid
  constraint orphaned_by_one CHECK ((num_nonnulls(rollback_id, rewind_id) = 1))
  constraint orphaned_event_chain_fkey FOREIGN KEY (chain) REFERENCES chain(chain)
  constraint orphaned_event_rewind_id_fkey FOREIGN KEY (rewind_id) REFERENCES rewind(id)
  constraint orphaned_event_rollback_id_fkey FOREIGN KEY (rollback_id) REFERENCES rollback(id)
  constraint orphaned_event_pkey PRIMARY KEY (id)
)
CREATE INDEX orphaned_event_position ON orphaned_event USING btree (chain, height)

table rewind (
  id uuid not null
  "timestamp" timestamp with time zone not null
  reason text
  who text not null
  forked_chain text collate "C"
  requested_at timestamp with time zone not null
  deepened integer not null default 0
  finished_at timestamp with time zone
  cancelled_at timestamp with time zone
  constraint rewind_forked_chain_fkey FOREIGN KEY (forked_chain) REFERENCES chain(chain)
  constraint rewind_pkey PRIMARY KEY (id)
)

table rewind_chain (
  rewind_id uuid not null
  chain text collate "C" not null
  checkpoint_before bigint
  from_height bigint
  cut bigint
  blocks_removed bigint not null
  events_removed bigint not null
  seconds double precision not null
  carried_out_by text not null
  finished_at timestamp with time zone not null
  constraint rewind_chain_chain_fkey FOREIGN KEY (chain) REFERENCES chain(chain)
  constraint rewind_chain_rewind_id_fkey FOREIGN KEY (rewind_id) REFERENCES rewind(id)
  constraint rewind_chain_pkey PRIMARY KEY (rewind_id, chain)
)

table rollback (
  id bigint not null generated always as identity
  chain text collate "C" not null
  checkpoint_before bigint not null
  fork_point bigint
  blocks_removed bigint not null
  events_removed bigint not null
  seconds double precision not null
  rolled_back_at timestamp with time zone not null
  constraint rollback_chain_fkey FOREIGN KEY (chain) REFERENCES chain(chain)
  constraint rollback_pkey PRIMARY KEY (id)
)

table transaction (
  chain text collate "C" not null
  height bigint not null
  tx_index integer not null
  tx_hash bytea not null
  block_hash bytea not null
  block_time timestamp with time zone not null
  success boolean
  code bigint
  from_address text
  to_address text
  value numeric
  gas_wanted numeric
  gas_used numeric
  fee jsonb
  memo text
  constraint transaction_pkey PRIMARY KEY (chain, height, tx_index, tx_hash)
)
CREATE INDEX transaction_hash ON transaction USING btree (tx_hash)

table typed_view (
  read_schema text collate "C" not null
  name text collate "C" not null
  definition text not null
  constraint typed_view_pkey PRIMARY KEY (read_schema, name)
)

CREATE OR REPLACE FUNCTION create_contract_view(tables text, views text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  execute format($view$
    create or replace view %2$I.contracts as
    select t.chain, t.contract, t.address, t.height, t.tx_index, t.event_index from %1$I.contract_registry t
    where not exists (select from %1$I."_global" g where g.key = 'rewind_timestamp_' || t.chain
      and t.height >= (g.value ->> 'from')::bigint) $view$, tables, views);
  execute format('comment on view %I.contracts is %L', views,
    'Contracts that factories created. Hides what a running rewind takes away, from its request on.');
end $function$


CREATE OR REPLACE FUNCTION create_event_partition(chain text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  partition text := 'event_' || chain;
begin
  if to_regclass(quote_ident(partition)) is null then
    execute format('create table %I (like event including all)', partition);
    execute format('alter table event attach partition %I for values in (%L)', partition, chain);
  end if;
end $function$


CREATE OR REPLACE FUNCTION create_query_views(tables text, views text)
 RETURNS void
 LANGUAGE plpgsql
AS $functionx$
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
end $functionx$


CREATE OR REPLACE FUNCTION create_read_views(tables text, views text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  hidden text := format(
    'not exists (select from %I."_global" g where g.key = ''rewind_timestamp_'' || t.chain'
      || ' and t.height >= (g.value ->> ''from'')::bigint)', tables);
begin
  perform ensure_read_schema(views);

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
end $function$


CREATE OR REPLACE FUNCTION ensure_read_schema(views text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if to_regnamespace(quote_ident(views)) is null then execute format('create schema %I', views); end if;
end $function$


view blocks (chain text, height bigint, hash bytea, parent_hash bytea, block_time timestamp with time zone)

view contracts (chain text, contract text, address text, height bigint, tx_index integer, event_index integer)

view events (chain text, height bigint, tx_index integer, event_index integer, block_hash bytea, block_time timestamp with time zone, tx_hash bytea, contract text, address text, name text, args jsonb, topic0 bytea, topic1 bytea, topic2 bytea, topic3 bytea, data bytea, undecoded text)

view status (chain text, epoch bigint, height bigint, rewinding boolean, paused boolean)

view transactions (chain text, height bigint, tx_index integer, block_hash bytea, block_time timestamp with time zone, tx_hash bytea, success boolean, code bigint, from_address text, to_address text, value numeric, gas_wanted numeric, gas_used numeric, fee jsonb, memo text)
