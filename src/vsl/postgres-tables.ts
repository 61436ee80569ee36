/**
 * The tables of a store. Texts are JSON, never jsonb: that would reorder keys and refuse \u0000. Keys sort by their bytes. `xid` is the transaction
 * that wrote an entry, plus `meta.base`, and `seq` its place therein: their order is one that a reader can wait for, see postgres-pages.ts.
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
);
create table "${schema}"."values" (key text collate "C" primary key, value text not null) with (fillfactor = 85);
create table "${schema}".own (key text collate "C" primary key, value text not null) with (fillfactor = 85);
create table "${schema}".blobs (digest text collate "C" primary key, bytes bytea not null);
alter table "${schema}".blobs alter bytes set storage external;
`

/**
 * A batch of writes in one call: returns a row for each that was refused and writes the others. Streams come sorted and keys are sorted here, so
 * that batches of several processes wait for each other in one order and never in a circle; each statement in here sees what was committed while
 * the one before it waited. Inserts are the first `p_claims` keys; a key without a text is deleted. `again` means that nothing stood in the way
 * any more when it was looked for, or that the write would come before its predecessor in the feed.
 */
export const commitBatch = (schema: string): string => `
create function "${schema}".commit_batch(
  p_base bigint, p_streams text[], p_expected bigint[], p_fences bigint[], p_entries text[],
  p_claims int, p_keys text[], p_texts text[], p_owners int[]
) returns table (member int, verdict text, number bigint, met text)
language plpgsql
-- A plan made while the tables were small would read them from end to end when they no longer are.
set enable_seqscan = off
set jit = off
as $body$
declare
  this_xid constant bigint := p_base + pg_current_xact_id()::text::bigint;
  taken record;
  head record;
  keys_met text[];
  passed int[] := '{}';
  landed boolean;
  written int;
begin
  if p_claims > 0 then
    keys_met := array_fill(null::text, array[cardinality(p_streams)]);
    for taken in
      select distinct on (c.owner) c.owner, c.key
      from unnest(p_keys[:p_claims], p_owners[:p_claims]) with ordinality c(key, owner, n)
      cross join lateral (select from "${schema}"."values" v where v.key = c.key limit 1) there
      order by c.owner, c.n
    loop
      keys_met[taken.owner] := taken.key;
    end loop;
  end if;

  for i in 1 .. cardinality(p_streams) loop
    if keys_met[i] is null then
      for attempt in 1 .. 2 loop
        update "${schema}".heads h
        set revision = h.revision + (p_entries[i] is not null)::int,
            xid = case when p_entries[i] is null then h.xid else this_xid end
        where h.stream = p_streams[i] and h.revision = p_expected[i]
          and (p_fences[i] is null or h.token = p_fences[i]) and h.xid < this_xid;
        landed := found;
        exit when landed or p_expected[i] > 0 or p_fences[i] <> 0;
        insert into "${schema}".heads (stream, revision, xid)
        select p_streams[i], (p_entries[i] is not null)::int, case when p_entries[i] is null then 0 else this_xid end
        on conflict do nothing;
        landed := found;
        exit when landed; -- otherwise somebody has just made it, and perhaps only acquired it
      end loop;
      if landed then
        passed := passed || i;
        continue;
      end if;
    end if;
    select coalesce(max(h.revision), 0) as revision, coalesce(max(h.token), 0) as token into head
    from "${schema}".heads h where h.stream = p_streams[i];
    member := i;
    met := null;
    if p_fences[i] <> head.token then
      verdict := 'fenced';
      number := head.token;
    elsif p_expected[i] <> head.revision then
      verdict := 'conflict';
      number := head.revision;
    elsif keys_met[i] is not null then
      verdict := 'exists';
      met := keys_met[i];
    else
      verdict := 'again';
    end if;
    return next;
  end loop;
  if passed = '{}' then
    return;
  end if;

  if p_keys <> '{}' then
    -- Deletes take part as well, or they would be locked out of order.
    insert into "${schema}"."values" as v (key, value)
    select k.key, coalesce(k.text, '')
    from unnest(p_keys, p_texts, p_owners) k(key, text, owner)
    where k.owner = any (passed)
    order by k.key collate "C"
    on conflict (key) do update set value = excluded.value
    where excluded.key not in (select unnest(p_keys[:p_claims]));
    get diagnostics written = row_count;
    if p_claims > 0 and written < (select count(*) from unnest(p_owners) o where o = any (passed)) then
      raise serialization_failure using message = 'a key was inserted by somebody else meanwhile';
    end if;
    if array_position(p_texts, null) is not null then
      delete from "${schema}"."values" where key = any (array(
        select k.key from unnest(p_keys, p_texts, p_owners) k(key, text, owner)
        where k.text is null and k.owner = any (passed)
      ));
    end if;
  end if;

  insert into "${schema}".journal (stream, revision, xid, seq, body)
  select m.stream, m.expected + 1, this_xid, m.n, m.entry
  from unnest(p_streams, p_expected, p_entries) with ordinality m(stream, expected, entry, n)
  where m.entry is not null and m.n = any (passed);
end
$body$;
`
