-- How fast a chain was indexed when there was something to catch up with: blocks per second of its last ranges. The plan
-- of a rewind tells by it how long indexing again takes. `blocks_per_second` cannot: of a chain at its head it is the
-- chain's own pace. Null: never measured. For people, like the rest of the table; proves nothing.

alter table chain_status add column backfill_blocks_per_second double precision;
