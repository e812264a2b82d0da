-- The tables that every process shares.
--
-- `_global` is the meeting point of the rewind protocol (docs/design.md, section 2). `checkpoint` says how far a chain
-- is committed; its row always exists, and whoever changes a chain's data first updates it by compare-and-set on
-- height, hash, token and holder: that one row fences all writers of a chain. Facts (`block`, `event`) are only ever
-- inserted, or removed by a rollback or a rewind. Names are unqualified: the transaction helper, and the migration
-- runner, set the search path, so that a statement that ever ran outside its transaction would find no table.

create table "_global" (
  "key" varchar(255) not null,
  "value" jsonb,
  "createdAt" timestamptz(6) not null,
  "updatedAt" timestamptz(6) not null,
  constraint "_global_pkey" primary key ("key")
);

-- The epoch is a row, not a sequence: it rises in the transaction that it stands for, and not if that is undone.
insert into "_global" ("key", "value", "createdAt", "updatedAt")
values ('epoch', '0', clock_timestamp(), clock_timestamp());

-- Every chain that was ever declared. One that is taken out of the config keeps its row and takes part in rewinds.
-- Chain keys compare by code unit, in SQL (collate "C") as in the program.
create table chain (
  chain text collate "C" primary key,
  kind text not null check (kind in ('evm', 'cosmos')),
  chain_id text not null,
  start_height bigint not null check (start_height >= 0),
  -- Which facts a fresh index would hold: a chain with facts may not go on under another filter.
  filter_digest text not null,
  -- Set in the write that stores a block whose time is below that of the stored block under it. Until then the
  -- lowest height after a time is found at once on an index by time.
  times_fell boolean not null default false,
  registered_at timestamptz not null default clock_timestamp(),
  constraint chain_key check (chain ~ '^[a-z][a-z0-9_-]{0,31}$')
);

-- height, hash and block_time are null together, while nothing is stored.
create table checkpoint (
  chain text collate "C" primary key references chain,
  height bigint check (height >= 0),
  hash bytea,
  block_time timestamptz,
  token bigint not null default 0,
  holder text,
  constraint checkpoint_whole check (num_nulls(height, hash, block_time) in (0, 3))
);

-- The right of one process to do something. Free where expires_at is null or past, by the database's own clock.
-- Never locked by a long transaction, so that it can be renewed at any time.
create table lease (
  name text collate "C" primary key,
  holder text,
  token bigint not null default 0,
  acquired_at timestamptz,
  expires_at timestamptz,
  constraint lease_whole check ((holder is null) = (expires_at is null))
);

-- What a worker last said of itself: for people, proves nothing.
create table chain_status (
  chain text collate "C" primary key references chain,
  phase text not null,
  reason text,
  head_height bigint,
  head_time timestamptz,
  finalized_height bigint,
  end_height bigint,
  blocks_per_second double precision,
  events_per_second double precision,
  updated_at timestamptz not null
);

-- Facts: blocks that hold an event (or all, where so configured).
create table block (
  chain text collate "C" not null,
  height bigint not null,
  hash bytea not null,
  parent_hash bytea,
  block_time timestamptz not null,
  primary key (chain, height)
);
create index block_time on block (chain, block_time, height);

-- Blocks kept only for linking: the unfinalized tail, and the checkpoint's. Not facts.
create table header (
  chain text collate "C" not null,
  height bigint not null,
  hash bytea not null,
  parent_hash bytea,
  block_time timestamptz not null,
  primary key (chain, height)
);
create index header_time on header (chain, block_time, height);

-- Facts: events. The key is the position and the transaction's hash; the block's hash follows from chain and height.
create table event (
  chain text collate "C" not null,
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
  primary key (chain, height, tx_index, event_index, tx_hash),
  constraint event_decoded check ((args is null) = (undecoded is not null))
) partition by list (chain);

-- A chain's partition is created beside the table and then attached: unlike "create table … partition of", that does
-- not lock readers out.
create function create_event_partition(chain text) returns void language plpgsql as $$
declare
  partition text := 'event_' || chain;
begin
  if to_regclass(quote_ident(partition)) is null then
    execute format('create table %I (like event including all)', partition);
    execute format('alter table event attach partition %I for values in (%L)', partition, chain);
  end if;
end $$;

-- The plan of a backfill, and what of it is done. The checkpoint alone decides; a rewind or rollback shortens ranges.
create table backfill_ranges (
  chain text collate "C" not null references chain,
  filter text not null,
  from_height bigint not null,
  to_height bigint not null,
  status text not null check (status in ('pending', 'running', 'done', 'failed')),
  attempts integer not null default 0,
  primary key (chain, filter, from_height),
  constraint backfill_ranges_rising check (from_height <= to_height)
);

-- The audit, kept for ever.
create table rewind (
  id uuid primary key,
  "timestamp" timestamptz not null,
  reason text,
  who text not null,
  -- The chain whose fork asked for it; null: an operator did.
  forked_chain text collate "C" references chain,
  requested_at timestamptz not null,
  deepened integer not null default 0,
  finished_at timestamptz,
  cancelled_at timestamptz
);

create table rewind_chain (
  rewind_id uuid not null references rewind,
  chain text collate "C" not null references chain,
  -- The checkpoint before, the lowest stored height that went (null: none), and the checkpoint after (null: before
  -- the chain's start).
  checkpoint_before bigint,
  from_height bigint,
  cut bigint,
  blocks_removed bigint not null,
  events_removed bigint not null,
  seconds double precision not null,
  carried_out_by text not null,
  finished_at timestamptz not null,
  primary key (rewind_id, chain)
);

create table rollback (
  id bigint generated always as identity primary key,
  chain text collate "C" not null references chain,
  checkpoint_before bigint not null,
  -- Null: the chain's first block was replaced as well.
  fork_point bigint,
  blocks_removed bigint not null,
  events_removed bigint not null,
  seconds double precision not null,
  rolled_back_at timestamptz not null
);

-- Two contents for one identity: both are kept here, and the chain stops.
create table event_conflict (
  id bigint generated always as identity primary key,
  chain text collate "C" not null,
  height bigint not null,
  tx_index integer not null,
  event_index integer not null,
  tx_hash bytea not null,
  stored jsonb not null,
  observed jsonb not null,
  seen_at timestamptz not null default clock_timestamp()
);
