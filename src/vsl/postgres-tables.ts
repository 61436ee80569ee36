/**
 * The tables of a store. Texts are JSON, never jsonb: that would reorder keys and refuse \u0000. Keys sort by their bytes. `xid` is the transaction
 * that wrote an entry, plus `meta.base`, and `seq` its place therein: their order is one that a reader can wait for, see postgres-pages.ts. Entries
 * are not compressed, and lie in their row while they fit into a page: compressing one would be a third of its commit.
 */
export const tables = (schema: string): string => `
create table "${schema}".meta (version int not null, base bigint not null);
insert into "${schema}".meta values (1, 0);
create table "${schema}".heads (
  stream text collate "C" primary key,
  revision bigint not null default 0,
  token bigint not null default 0,
  xid bigint not null default 0,
  holder_id text collate "C",
  holder text,
  until timestamptz
) with (fillfactor = 50);
create table "${schema}".journal (
  stream text collate "C" not null,
  revision bigint not null,
  xid bigint not null,
  seq int not null,
  body text not null,
  primary key (stream, revision),
  unique (xid, seq)
) with (toast_tuple_target = 8160);
alter table "${schema}".journal alter body set storage external;
create table "${schema}"."values" (key text collate "C" primary key, value text not null) with (fillfactor = 85);
create table "${schema}".own (key text collate "C" primary key, value text not null) with (fillfactor = 85);
create table "${schema}".blobs (digest text collate "C" primary key, bytes bytea not null);
alter table "${schema}".blobs alter bytes set storage external;
`

/**
 * A batch of writes in one call: writes those whose conditions hold and returns why the others were refused, as JSON, or null. Streams and keys come
 * sorted, so that batches of several processes wait for each other in one order and never in a circle; each statement in here sees what was
 * committed while the one before it waited. Claims are those keys that must not exist; a key with an empty text is deleted. `again` means that
 * nothing stood in the way any more when it was looked for, or that the entry would come before its predecessor in the feed.
 */
export const commitFunction = (schema: string): string => `
create function "${schema}".commit_batch(
  p_base bigint, p_streams text[], p_expected bigint[], p_fences bigint[], p_entries text[],
  p_keys text[], p_texts text[], p_owners int[], p_claims text[], p_claim_owners int[]
) returns text
language plpgsql
-- A plan made while the tables were small would read them from end to end when they no longer are.
set enable_seqscan = off
set jit = off
as $body$
declare
  this_xid constant bigint := p_base + pg_current_xact_id()::text::bigint;
  refused jsonb;
  taken record;
  head record;
  keys_met text[];
  members_out int[] := '{}';
  landed boolean;
  written int;
begin
  if p_claims <> '{}' then
    for taken in
      select distinct on (c.owner) c.owner, c.key
      from unnest(p_claims, p_claim_owners) with ordinality c(key, owner, n)
      cross join lateral (select from "${schema}"."values" v where v.key = c.key limit 1) there
      order by c.owner, c.n
    loop
      keys_met[taken.owner] := taken.key;
    end loop;
  end if;

  for i in 1 .. cardinality(p_streams) loop
    landed := false;
    if keys_met[i] is null then
      update "${schema}".heads h
      set revision = h.revision + (p_entries[i] is not null)::int,
          xid = case when p_entries[i] is null then h.xid else this_xid end
      where h.stream = p_streams[i] and h.revision = p_expected[i]
        and (p_fences[i] is null or h.token = p_fences[i]) and h.xid < this_xid;
      landed := found;
      if not landed and p_expected[i] = 0 and coalesce(p_fences[i], 0) = 0 then
        insert into "${schema}".heads (stream, revision, xid)
        values (p_streams[i], (p_entries[i] is not null)::int, case when p_entries[i] is null then 0 else this_xid end)
        on conflict do nothing;
        landed := found;
      end if;
    end if;
    continue when landed;
    select coalesce(max(h.revision), 0) as revision, coalesce(max(h.token), 0) as token into head
    from "${schema}".heads h where h.stream = p_streams[i];
    members_out := members_out || i;
    refused := coalesce(refused, '[]') || jsonb_build_array(case
      when p_fences[i] <> head.token then jsonb_build_object('member', i, 'kind', 'fenced', 'token', head.token)
      when p_expected[i] <> head.revision then jsonb_build_object('member', i, 'kind', 'conflict', 'actual', head.revision)
      when keys_met[i] is not null then jsonb_build_object('member', i, 'kind', 'exists', 'key', keys_met[i])
      else jsonb_build_object('member', i, 'kind', 'again')
    end);
  end loop;

  insert into "${schema}".journal (stream, revision, xid, seq, body)
  select m.stream, m.expected + 1, this_xid, m.n, m.entry
  from unnest(p_streams, p_expected, p_entries) with ordinality m(stream, expected, entry, n)
  where m.entry is not null and m.n <> all (members_out);
  if refused is not null then
    select array_agg(k.key order by k.n), array_agg(k.text order by k.n) into p_keys, p_texts
    from unnest(p_keys, p_texts, p_owners) with ordinality k(key, text, owner, n)
    where k.owner <> all (members_out);
  end if;
  if p_claims = '{}' then
    insert into "${schema}"."values" (key, value) select unnest(p_keys), unnest(p_texts)
    on conflict (key) do update set value = excluded.value;
  else
    insert into "${schema}"."values" (key, value) select unnest(p_keys), unnest(p_texts)
    on conflict (key) do update set value = excluded.value where excluded.key not in (select unnest(p_claims));
    get diagnostics written = row_count;
    if written < cardinality(p_keys) then
      raise serialization_failure using message = 'a key was inserted by somebody else meanwhile';
    end if;
  end if;
  -- Written first: so they were locked in the order of all keys.
  if '' = any (p_texts) then
    delete from "${schema}"."values"
    where key = any (array(select k.key from unnest(p_keys, p_texts) k(key, text) where k.text = ''));
  end if;
  return refused;
end
$body$;
`

/** `forgotten` is the transaction of the last entry that was taken away from a stream: whoever stood there has not been set back. */
export const forgettingTables = (schema: string): string => `
update "${schema}".meta set version = 2;
alter table "${schema}".heads add column forgotten bigint not null default 0;
alter table "${schema}".blobs add column put_at timestamptz not null default now();
`

/** A write that takes a stream's entries away; the rest of it is a commit like any other. Returns the same, counting it as the first of its batch. */
export const forgetFunction = (schema: string): string => `
create function "${schema}".forget_stream(
  p_base bigint, p_stream text, p_expected bigint, p_fence bigint,
  p_keys text[], p_texts text[], p_owners int[], p_claims text[], p_claim_owners int[]
) returns text
language plpgsql
set enable_seqscan = off
set jit = off
as $body$
declare
  refused text;
begin
  perform from "${schema}".heads h
  where h.stream = p_stream and h.revision = p_expected and (p_fence is null or h.token = p_fence) for update;
  if found
    and p_stream = (select j.stream from "${schema}".journal j order by j.xid desc, j.seq desc limit 1)
    and not exists (select from "${schema}"."values" v where v.key = any (p_claims))
  then
    return '[{ "member": 1, "kind": "newest" }]';
  end if;
  refused := "${schema}".commit_batch(
    p_base, array[p_stream], array[p_expected], array[p_fence], array[null::text],
    p_keys, p_texts, p_owners, p_claims, p_claim_owners
  );
  if refused is null then
    delete from "${schema}".journal j where j.stream = p_stream;
    update "${schema}".heads h set revision = 0, forgotten = h.xid where h.stream = p_stream;
  end if;
  return refused;
end
$body$;
`

/**
 * The usual commit, without the cost of the function: one write that deletes nothing. Writes everything, or no row at all if a condition does not
 * hold, or fails because a key is there that must not be: its value would become null. The function then says which. Head first, then the keys as
 * they come sorted: the same order as there.
 */
export const commitLone = (schema: string): string => `
with head as (
  update "${schema}".heads h
  set revision = h.revision + ($5::text is not null)::int,
      xid = case when $5::text is null then h.xid else $1 + pg_current_xact_id()::text::bigint end
  where h.stream = $2 and h.revision = $3 and ($4::bigint is null or h.token = $4)
    and h.xid < $1 + pg_current_xact_id()::text::bigint
  returning h.revision, h.xid
), entry as (
  insert into "${schema}".journal (stream, revision, xid, seq, body)
  select $2, head.revision, head.xid, 1, $5 from head where $5::text is not null
)
insert into "${schema}"."values" (key, value)
select k.key, k.text from head, unnest($6::text[], $7::text[]) k(key, text)
on conflict (key) do update set value = case when excluded.key = any ($8::text[]) then null else excluded.value end`

/** The same for an entry alone, which is what most ticks of a run come to: writes one row, or none. */
export const commitEntry = (schema: string): string => `
with head as (
  update "${schema}".heads h
  set revision = h.revision + 1, xid = $1 + pg_current_xact_id()::text::bigint
  where h.stream = $2 and h.revision = $3 and ($4::bigint is null or h.token = $4)
    and h.xid < $1 + pg_current_xact_id()::text::bigint
  returning h.revision, h.xid
)
insert into "${schema}".journal (stream, revision, xid, seq, body)
select $2, head.revision, head.xid, 1, $5 from head`
